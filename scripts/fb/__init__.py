"""Forward-backward representations: networks, losses and the bundle they are saved in."""
