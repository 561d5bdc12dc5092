"""A race on one track: standings, page, picture, film."""
