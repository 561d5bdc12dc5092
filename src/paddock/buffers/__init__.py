"""Where experience is kept between collecting and learning."""
