# GPU kernels as data: nvcc compiles device/cuda/kernels/NAME.cu for several GPUs, and images.cpp takes the result in. No
# library of CUDA is linked, and CMake need not know the language.

include(FabringCuda)

# Sets FABRING_NVCC to an nvcc that works, or to nothing; FABRING_WITH_CUDA_KERNELS=ON and none is an error.
function(fabring_find_nvcc)
  if(FABRING_WITH_CUDA_KERNELS STREQUAL OFF)
    set(FABRING_NVCC "" PARENT_SCOPE)
    return()
  endif()
  find_program(FABRING_NVCC_PROGRAM nvcc ${FABRING_CUDA_FIRST} ${FABRING_CUDA_LAST} PATH_SUFFIXES bin)
  set(why "nvcc was not found")
  if(FABRING_NVCC_PROGRAM)
    # It may be there and not work: with a compiler that is too new for it, or without all GPUs.
    if(NOT "${FABRING_NVCC_CHECKED}" STREQUAL "${FABRING_NVCC_PROGRAM}" OR NOT DEFINED CACHE{FABRING_NVCC_COMPRESSION})
      set(trial ${CMAKE_CURRENT_BINARY_DIR}/trial)
      file(WRITE ${trial}.cu "extern \"C\" __global__ void nothing() {}\n")
      # What CUDA 13 compresses with otherwise (zstd) is an invalid image to drivers before r550.
      foreach(compression --compress-mode=speed "")
        execute_process(COMMAND ${FABRING_NVCC_PROGRAM} -std=c++17 -gencode arch=compute_80,code=[sm_80,sm_90,sm_100,compute_80]
                                ${compression} -fatbin -o ${trial}.fatbin ${trial}.cu
                        RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
        if(NOT failed)
          set(FABRING_NVCC_CHECKED ${FABRING_NVCC_PROGRAM} CACHE INTERNAL "the nvcc that compiled for all GPUs")
          set(FABRING_NVCC_COMPRESSION "${compression}" CACHE INTERNAL "what makes it compress as all drivers read it")
          break()
        endif()
      endforeach()
      string(REGEX REPLACE "\n.*" "" said "${said}")
      set(why "${FABRING_NVCC_PROGRAM} cannot compile for sm_80, sm_90 and sm_100 (it needs CUDA 12.8 or newer): ${said}")
    endif()
    if("${FABRING_NVCC_CHECKED}" STREQUAL "${FABRING_NVCC_PROGRAM}")
      set(FABRING_NVCC ${FABRING_NVCC_PROGRAM} PARENT_SCOPE)
      return()
    endif()
  endif()
  if(FABRING_WITH_CUDA_KERNELS STREQUAL ON)
    message(FATAL_ERROR "FABRING_WITH_CUDA_KERNELS=ON but ${why}; install the CUDA toolkit 12.8 or newer")
  endif()
  message(STATUS "Fabring: no GPU kernels, ${why}")
  set(FABRING_NVCC "" PARENT_SCOPE)
endfunction()

# fabring_embed_kernels(target NAME...): NAME.cu, for what `target` compiles images.cpp into.
function(fabring_embed_kernels target)
  fabring_find_nvcc()
  set_property(GLOBAL PROPERTY FABRING_HAS_KERNELS FALSE)
  if(NOT FABRING_NVCC)
    return()
  endif()
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels)
  set(into ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  file(MAKE_DIRECTORY ${into})
  set(headers all bits copies fold fold_task formats operations units)
  list(TRANSFORM headers PREPEND ${folder}/)
  list(TRANSFORM headers APPEND .hpp)
  foreach(name IN LISTS ARGN)
    # One pass over the source, for the oldest GPU, where nothing is used that only newer ones have: float8 has conversions
    # since 8.9. No contraction of a * b + c into one rounding: the bits are the processor's.
    set(gpus -gencode arch=compute_80,code=[sm_80,sm_90,sm_100,compute_80])
    if(name STREQUAL float8)
      set(gpus -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_89,code=[sm_89,sm_90,sm_100,compute_89])
    endif()
    add_custom_command(
      OUTPUT ${into}/${name}.fatbin
      COMMAND ${FABRING_NVCC} -std=c++17 -O3 -fmad=false -Werror all-warnings -I${PROJECT_SOURCE_DIR}
              ${gpus} ${FABRING_NVCC_COMPRESSION} -Xfatbin -compress-all
              -fatbin -o ${into}/${name}.fatbin ${folder}/${name}.cu
      DEPENDS ${folder}/${name}.cu ${headers}
      COMMENT "GPU kernels: ${name}" VERBATIM)
    list(APPEND images ${into}/${name}.fatbin)
  endforeach()
  set_source_files_properties(${folder}/images.cpp PROPERTIES OBJECT_DEPENDS "${images}"
                              COMPILE_DEFINITIONS FABRING_KERNEL_IMAGES="${into}")
  set_property(GLOBAL PROPERTY FABRING_HAS_KERNELS TRUE)
endfunction()
