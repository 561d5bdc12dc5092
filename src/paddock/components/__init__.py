"""Networks, normalisers, controllers and other parts that workflows are made of."""
