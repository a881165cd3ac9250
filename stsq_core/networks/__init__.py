"""Models whose gradients autograd finds: one `Network` (stsq_core.network) a module.

Their configs stand in `stsq_core.architecture`.
"""
