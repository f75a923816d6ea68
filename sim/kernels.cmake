# kernels.cmake -- compiles kernels.cu where there is an nvcc and builds the result in.  Without one
# the program is the same, and says that it has no kernels when it is asked to run them.
find_program(MR_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin
             DOC "compiler of the CUDA Toolkit; kernels for a GPU are built in where it is found")
set(kernels "${PROJECT_BINARY_DIR}/kernels_image.c" "${PROJECT_BINARY_DIR}/kernels_older.c")
set(kernels_image "${PROJECT_BINARY_DIR}/kernels.fatbin")
set(kernels_older "${PROJECT_BINARY_DIR}/kernels_older.ptx")

if(MR_NVCC)
  # Machine code for what this nvcc knows from Turing on, and PTX of the oldest and the newest for
  # what it does not.
  execute_process(COMMAND "${MR_NVCC}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  set(targets)
  foreach(arch 75 80 86 89 90 100 120)
    if(known MATCHES "compute_${arch}")
      list(APPEND targets -gencode arch=compute_${arch},code=sm_${arch})
      if(NOT targets MATCHES "code=compute")
        list(APPEND targets -gencode arch=compute_${arch},code=compute_${arch})
      endif()
      set(newest ${arch})
    endif()
  endforeach()
  list(APPEND targets -gencode arch=compute_${newest},code=compute_${newest})
  # Older drivers cannot read what newer releases compress.
  add_custom_command(OUTPUT "${kernels_image}" DEPENDS sim/kernels.cu sim/kernels.h
                     COMMAND "${MR_NVCC}" -O3 -fatbin --no-compress ${targets} -Werror all-warnings
                             -I "${PROJECT_SOURCE_DIR}/sim" -o "${kernels_image}"
                             "${PROJECT_SOURCE_DIR}/sim/kernels.cu")
  # A driver reads the machine code of compilers of its own major release and earlier ones.
  add_custom_command(OUTPUT "${kernels_older}"
                     DEPENDS sim/kernels.cu sim/kernels.h sim/kernels_older.cmake
                     COMMAND "${MR_NVCC}" -O3 -ptx -arch=compute_75
                             -I "${PROJECT_SOURCE_DIR}/sim" -o "${kernels_older}.new"
                             "${PROJECT_SOURCE_DIR}/sim/kernels.cu"
                     COMMAND ${CMAKE_COMMAND} -D "IN=${kernels_older}.new"
                             -D "OUT=${kernels_older}"
                             -P "${PROJECT_SOURCE_DIR}/sim/kernels_older.cmake")
else()
  message(STATUS "no nvcc: built without kernels for a GPU (compare --on cuda --compute none)")
  file(WRITE "${kernels_image}" "")
  file(WRITE "${kernels_older}" "")
endif()

foreach(made image older)
  add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/kernels_${made}.c"
                     DEPENDS "${kernels_${made}}" bench/embed.cmake
                     COMMAND ${CMAKE_COMMAND} -D "IN=${kernels_${made}}"
                             -D "OUT=${PROJECT_BINARY_DIR}/kernels_${made}.c"
                             -D NAME=mr_kernels_${made}
                             -P "${PROJECT_SOURCE_DIR}/bench/embed.cmake")
endforeach()
