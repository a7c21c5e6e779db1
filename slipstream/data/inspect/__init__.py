"""A look at anybody's meshes before they are ingested: what is there, and a first card for it.

look = look_at(folder)      # samples, arrays with ranges and guessed units, parameters
draft_card(look)            # the text of a commented card.yaml that can be used as it is
"""

from slipstream.data.inspect.card_text import draft_card
from slipstream.data.inspect.file import ArrayLook, FileLook, look_at_file
from slipstream.data.inspect.folder import FolderLook, look_at

__all__ = ["ArrayLook", "FileLook", "FolderLook", "draft_card", "look_at", "look_at_file"]
