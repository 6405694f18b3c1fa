"""In place of the backend where it was not built: an import says why, and what to do. With the name of a module that is not
there, so that what tries whether there is one goes on."""

from fabring_torch_autoload import NOT_BUILT

raise ModuleNotFoundError(NOT_BUILT, name="fabring.torch")
