"""Pictures, charts and films for people. Nothing here rolls out or learns."""
