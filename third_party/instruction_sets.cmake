# Which instruction sets the project is compiled for.
#
# A portable build, the default on x86-64, takes x86-64-v2 for granted and has the kernels, in which nearly
# all time goes, compiled for v2, v3 and v4; core/isa.h picks one of them when a program starts.
# -DPOSEIDON_LEVELS=here compiles the kernels for the best level of this machine alone, which takes less time.
# -DPOSEIDON_ARCH=native, or another value of -march, compiles everything for that alone.
set(POSEIDON_ARCH "" CACHE STRING "instruction set of everything (-march), for example native; empty: portable")

set(POSEIDON_PORTABLE OFF)
set(march "${POSEIDON_ARCH}")
if(NOT POSEIDON_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(POSEIDON_PORTABLE ON)
  set(march x86-64-v2)
  target_compile_definitions(poseidon_settings INTERFACE POSEIDON_PORTABLE)
endif()
# A target's property POSEIDON_MARCH comes before that of the build.
set(own "$<TARGET_PROPERTY:POSEIDON_MARCH>")
target_compile_options(poseidon_settings INTERFACE "$<$<BOOL:${own}>:-march=${own}>")
if(march)
  target_compile_options(poseidon_settings INTERFACE "$<$<NOT:$<BOOL:${own}>>:-march=${march}>")
endif()

# The levels that a portable build has kernels for, and the best of them that this machine can run.
set(all_levels v2 v3 v4)
set(POSEIDON_LEVELS "${all_levels}" CACHE STRING
  "x86-64 levels that the kernels of a portable build are for; here: the best level of this machine")
set(POSEIDON_LEVEL_HERE v2)
set(mark_of_v2 sse4_2)
set(mark_of_v3 avx2)
set(mark_of_v4 avx512vl)
foreach(level ${all_levels})
  execute_process(COMMAND grep -qw ${mark_of_${level}} /proc/cpuinfo RESULT_VARIABLE status)
  if(status EQUAL 0 AND (level IN_LIST POSEIDON_LEVELS OR POSEIDON_LEVELS STREQUAL here))
    set(POSEIDON_LEVEL_HERE ${level})
  endif()
endforeach()
if(POSEIDON_LEVELS STREQUAL here)
  set(POSEIDON_LEVELS ${POSEIDON_LEVEL_HERE})
endif()
foreach(level ${POSEIDON_LEVELS})
  if(NOT level IN_LIST all_levels)
    message(FATAL_ERROR "POSEIDON_LEVELS: expected here, or some of ${all_levels}, got \"${POSEIDON_LEVELS}\"")
  endif()
endforeach()
set(POSEIDON_ALL_LEVELS OFF)
if(POSEIDON_LEVELS STREQUAL all_levels)
  set(POSEIDON_ALL_LEVELS ON)
endif()
# For core/isa.cpp and layers/cpu/backend.cpp: the kinds of kernels in this build, and their entries.
set(POSEIDON_ISAS Isa::kNative)
set(POSEIDON_BACKENDS "Built(Isa::kNative,native::make_backend)")
if(POSEIDON_PORTABLE)
  string(REGEX REPLACE "v([2-4])" "Isa::kX86V\\1" POSEIDON_ISAS "${POSEIDON_LEVELS}")
  string(REGEX REPLACE "v([2-4])" "Built(Isa::kX86V\\1,v\\1::make_backend)" POSEIDON_BACKENDS "${POSEIDON_LEVELS}")
  string(REPLACE ";" "," POSEIDON_ISAS "${POSEIDON_ISAS}")
  string(REPLACE ";" "," POSEIDON_BACKENDS "${POSEIDON_BACKENDS}")
endif()

# poseidon_kernels(NAME LINKS SOURCE...): object libraries NAME_v2, NAME_v3, NAME_v4 of the sources, or
# NAME_native where the build is not portable. Each is told its kind as POSEIDON_ISA, the namespace of its
# entry.
function(poseidon_kernels name links)
  if(POSEIDON_PORTABLE)
    set(kinds ${POSEIDON_LEVELS})
  else()
    set(kinds native)
  endif()
  foreach(kind ${kinds})
    add_library(${name}_${kind} OBJECT ${ARGN})
    poseidon_unite(${name}_${kind})
    set_property(TARGET ${name}_${kind} PROPERTY UNITY_BUILD_BATCH_SIZE 8)  # their names differ within a batch alone
    target_link_libraries(${name}_${kind} PUBLIC ${links})
    target_compile_definitions(${name}_${kind} PRIVATE POSEIDON_ISA=${kind})
    # The sanitizers' tests of layers spend their time here, so calls are inlined.
    if(POSEIDON_SANITIZE)
      target_compile_options(${name}_${kind} PRIVATE $<$<CONFIG:Debug>:-O1>)
    endif()
    # Vectors wider than the registers never cross a call that is not inlined.
    target_compile_options(${name}_${kind} PRIVATE -Wno-psabi)
    if(POSEIDON_PORTABLE)
      set_property(TARGET ${name}_${kind} PROPERTY POSEIDON_MARCH x86-64-${kind})
    endif()
    # g++ makes vectors of 256 bits for most AVX-512 processors; the kernels are worth the full width.
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      target_compile_options(${name}_${kind} PRIVATE -mprefer-vector-width=512)
    endif()
  endforeach()
endfunction()

# poseidon_link_kernels(NAME ENTRY): makes all of these part of the library NAME.
#
# Code for another processor must not be met by chance: an inline function of a header, compiled for v4,
# would serve the whole program if the linker happened to take that copy. So the objects of each
# instruction set are made one, in which every symbol is local but POSEIDON_ISA::ENTRY.
function(poseidon_link_kernels name entry)
  if(NOT POSEIDON_PORTABLE)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${name}_native>)
    return()
  endif()
  foreach(level ${POSEIDON_LEVELS})
    set(whole ${CMAKE_CURRENT_BINARY_DIR}/${name}_${level}.o)
    add_custom_command(OUTPUT ${whole} VERBATIM COMMAND_EXPAND_LISTS
      COMMENT "Making one object of ${name}_${level}"
      COMMAND ${CMAKE_LINKER} -r --force-group-allocation $<TARGET_OBJECTS:${name}_${level}> -o ${whole}
      COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=*2${level}*${entry}* ${whole}
      DEPENDS $<TARGET_OBJECTS:${name}_${level}>)
    set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${name} PRIVATE ${whole})
  endforeach()
endfunction()
