"""Every adapter × every course a session can take, with the real frameworks and their real HTTP clients."""
