"""The racing world as frames: ground, cars, instruments."""
