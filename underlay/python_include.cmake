# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
#
# The wheels' imported targets name the Python and numpy include folders of the machine that built
# the wheels, and CMake refuses a target whose include folder does not exist. This file is run
# after each package's project() (CMAKE_PROJECT_INCLUDE): at the end of the package's CMakeLists
# it drops such folders from every imported target; FindPython3 supplies the real ones.

function(drop_missing_include_folders)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
    set(kept)
    foreach(folder IN LISTS folders)
      if(NOT folder MATCHES "^/" OR EXISTS "${folder}")
        list(APPEND kept "${folder}")
      endif()
    endforeach()
    if(folders AND NOT "${kept}" STREQUAL "${folders}")
      set_property(TARGET ${target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${kept}")
    endif()
  endforeach()
endfunction()

cmake_language(DEFER CALL drop_missing_include_folders)
