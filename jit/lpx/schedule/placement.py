
ROOT = "root"
INLINE = "inline"


def legal_locations(f, n):
    return {-1: ROOT}


compute_at = reverse_compute_at = compute_root = None
