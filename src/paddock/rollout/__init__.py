"""A policy times a vector environment: acting, collecting, evaluating."""
