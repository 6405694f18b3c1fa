#include <Python.h>

#include "interpreter.hpp"

namespace fabring_torch {

WithoutInterpreter::WithoutInterpreter() {
  // Once the interpreter has ended PyGILState_Check() says yes to everybody.
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) saved_ = PyEval_SaveThread();
}

WithoutInterpreter::~WithoutInterpreter() {
  if (saved_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(saved_));
}

}  // namespace fabring_torch
