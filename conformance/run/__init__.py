"""Run cases side by side: a server and a scheduler for each, step by step."""
