"""Composing YAML into a validated, frozen configuration."""
