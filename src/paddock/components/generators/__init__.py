"""How a policy makes a chunk of actions from what it sees: by regression, by flow matching, by diffusion."""
