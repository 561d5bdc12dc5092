"""Planners: action sequences searched for with a model, any model, that can be called."""
