"""Parts of the detection study that more than one benchmark or test uses."""
