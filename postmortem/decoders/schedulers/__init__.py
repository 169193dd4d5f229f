"""Jobs, nodes and pods as schedulers print them."""
