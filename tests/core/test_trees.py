import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.trees import load_tree, map_tree, save_tree

scalars = st.none() | st.booleans() | st.integers(-(2**140), 2**140) | st.text() | st.floats(allow_nan=False)
keys = st.text().filter(lambda key: key != "__array__")
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@given(tree=trees)
def test_scalars_come_back_as_they_were(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("tree")
    save_tree(folder, "it", tree)
    assert load_tree(folder, "it") == tree


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_arrays_come_back_with_type_and_shape(tmp_path, dtype, shape):
    array = np.ones(shape, dtype)
    save_tree(tmp_path, "it", {"x": [array]})
    (back,) = load_tree(tmp_path, "it")["x"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.uint8])
def test_tensors_come_back_as_tensors(tmp_path, dtype):
    tensor = torch.arange(6).reshape(2, 3).T.to(dtype)
    save_tree(tmp_path, "it", {"x": tensor, "scalar": torch.tensor(3.5, dtype=torch.float64)})
    back = load_tree(tmp_path, "it")
    assert back["x"].dtype == dtype
    assert torch.equal(back["x"], tensor)
    assert back["scalar"].shape == ()
    assert float(back["scalar"]) == 3.5


def test_what_cannot_be_read_without_pickle_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="object"):
        save_tree(tmp_path, "it", {"x": object()})


def test_map_tree_keeps_the_structure():
    assert map_tree(lambda leaf: leaf + 1, {"a": [1, {"b": 2}]}) == {"a": [2, {"b": 3}]}
