compute_inline = reverse_compute_inline = None
