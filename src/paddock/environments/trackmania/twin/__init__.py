"""The game's twin: Paddock's simulator behind the plugin's protocol, a drawn screen and a pad."""
