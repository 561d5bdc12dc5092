"""The twin's picture in a window of the desktop, with the keys of the game."""

from __future__ import annotations

import os
from typing import Any

from paddock.core.errors import InputError
from paddock.environments.trackmania.pad import Button
from paddock.environments.trackmania.screen import Picture
from paddock.environments.trackmania.window import TITLE


class TwinWindow:
    """A window with the game's title. Arrow keys drive, BackSpace or Delete restarts, Return confirms."""

    def __init__(self, width: int, height: int, place: tuple[int, int] | None = None, title: str = TITLE) -> None:
        if place is not None:
            os.environ["SDL_VIDEO_WINDOW_POS"] = f"{place[0]},{place[1]}"
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        import pygame

        self._game: Any = pygame
        pygame.display.init()
        if pygame.display.get_driver() in ("dummy", "offscreen"):
            raise InputError("no window can be opened: there is no display here. Leave --window out.")
        self._surface = pygame.display.set_mode((width, height))
        pygame.display.set_caption(title)
        self.is_closed = False
        self._has_driven = False

    def show(self, picture: Picture) -> tuple[Button, tuple[float, float, float]] | None:
        """Draw a picture; what the keys hold, or None as long as none has been touched."""
        pygame = self._game
        for event in pygame.event.get():
            self.is_closed |= event.type == pygame.QUIT
        pygame.surfarray.blit_array(self._surface, picture[:, :, ::-1].swapaxes(0, 1))
        pygame.display.flip()
        keys = pygame.key.get_pressed()
        buttons = Button(0)
        if keys[pygame.K_BACKSPACE] or keys[pygame.K_DELETE]:
            buttons |= Button.RESTART
        if keys[pygame.K_RETURN]:
            buttons |= Button.CONFIRM
        steer = float(keys[pygame.K_RIGHT]) - float(keys[pygame.K_LEFT])
        axes = (float(keys[pygame.K_UP]), float(keys[pygame.K_DOWN]), steer)
        is_held = bool(buttons) or any(axes)
        if not is_held and not self._has_driven:
            return None  # A pad drives.
        self._has_driven = is_held
        return buttons, axes

    def close(self) -> None:
        self._game.display.quit()
