# Sets the instruction sets that the project is compiled for.
#
# A portable build, the default on x86-64, requires x86-64-v2. It compiles the kernels, in which programs spend nearly
# all time, for v2, v3 and v4. core/isa.h selects one of them when a program starts.
# -DPOSEIDON_LEVELS=here compiles the kernels only for the best level of this machine, which takes less time.
# -DPOSEIDON_ARCH=native, or another value of -march, compiles everything only for that.
set(POSEIDON_ARCH "" CACHE STRING "instruction set of all code (-march), for example native; empty: portable")

set(POSEIDON_PORTABLE OFF)
set(march "${POSEIDON_ARCH}")
if(NOT POSEIDON_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(POSEIDON_PORTABLE ON)
  set(march x86-64-v2)
  target_compile_definitions(poseidon_settings INTERFACE POSEIDON_PORTABLE)
endif()
# A target's property POSEIDON_MARCH overrides the -march of the build.
set(own "$<TARGET_PROPERTY:POSEIDON_MARCH>")
target_compile_options(poseidon_settings INTERFACE "$<$<BOOL:${own}>:-march=${own}>")
if(march)
  target_compile_options(poseidon_settings INTERFACE "$<$<NOT:$<BOOL:${own}>>:-march=${march}>")
endif()

# The levels of the kernels in a portable build, and the best of these levels that this machine supports.
set(all_levels v2 v3 v4)
set(POSEIDON_LEVELS "${all_levels}" CACHE STRING
  "x86-64 levels of the kernels in a portable build; here: the best level of this machine")
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
    message(FATAL_ERROR "POSEIDON_LEVELS: expected here, or levels of ${all_levels}, got \"${POSEIDON_LEVELS}\"")
  endif()
endforeach()
set(POSEIDON_ALL_LEVELS OFF)
if(POSEIDON_LEVELS STREQUAL all_levels)
  set(POSEIDON_ALL_LEVELS ON)
endif()
# For core/isa.cpp: the instruction sets of the kernels in this build.
set(POSEIDON_ISAS Isa::kNative)
if(POSEIDON_PORTABLE)
  string(REGEX REPLACE "v([2-4])" "Isa::kX86V\\1" POSEIDON_ISAS "${POSEIDON_LEVELS}")
  string(REPLACE ";" "," POSEIDON_ISAS "${POSEIDON_ISAS}")
endif()

# poseidon_kernels(NAME LINKS SOURCE...): compiles the sources to the object libraries NAME_v2, NAME_v3 and NAME_v4, or
# to NAME_native if the build is not portable. In each one, POSEIDON_ISA is v2, v3, v4 or native, which is also the
# namespace of the entry point.
function(poseidon_kernels name links)
  if(POSEIDON_PORTABLE)
    set(kinds ${POSEIDON_LEVELS})
  else()
    set(kinds native)
  endif()
  foreach(kind ${kinds})
    add_library(${name}_${kind} OBJECT ${ARGN})
    poseidon_unite(${name}_${kind})
    set_property(TARGET ${name}_${kind} PROPERTY UNITY_BUILD_BATCH_SIZE 8)  # names are unique only within a batch
    target_link_libraries(${name}_${kind} PUBLIC ${links})
    target_compile_definitions(${name}_${kind} PRIVATE POSEIDON_ISA=${kind})
    # The layer tests under sanitizers spend their time in kernels, so -O1 inlines calls.
    if(POSEIDON_SANITIZE)
      target_compile_options(${name}_${kind} PRIVATE $<$<CONFIG:Debug>:-O1>)
    endif()
    # No call that is not inlined passes vectors wider than the registers, so the warning does not apply.
    target_compile_options(${name}_${kind} PRIVATE -Wno-psabi)
    if(POSEIDON_PORTABLE)
      set_property(TARGET ${name}_${kind} PROPERTY POSEIDON_MARCH x86-64-${kind})
    endif()
    # For most AVX-512 processors, g++ prefers vectors of 256 bits. The kernels are faster with 512 bits.
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      target_compile_options(${name}_${kind} PRIVATE -mprefer-vector-width=512)
    endif()
  endforeach()
endfunction()

# poseidon_link_kernels(NAME KERNELS ENTRY): adds all object libraries of poseidon_kernels(KERNELS ...) to the library
# NAME. The sources of NAME get the macro POSEIDON_ENTRIES: for each instruction set "Built(Isa::kX86V3,v3::ENTRY)".
#
# A program must not run code for another processor by accident. An inline function of a header, compiled for v4, would
# serve the whole program if the linker chose that copy. So the objects of each instruction set are linked into one
# object, in which all symbols are local except POSEIDON_ISA::ENTRY.
function(poseidon_link_kernels name kernels entry)
  if(NOT POSEIDON_PORTABLE)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${kernels}_native>)
    target_compile_definitions(${name} PRIVATE "POSEIDON_ENTRIES=Built(Isa::kNative,native::${entry})")
    return()
  endif()
  string(REGEX REPLACE "v([2-4])" "Built(Isa::kX86V\\1,v\\1::${entry})" entries "${POSEIDON_LEVELS}")
  string(REPLACE ";" "," entries "${entries}")
  target_compile_definitions(${name} PRIVATE "POSEIDON_ENTRIES=${entries}")
  foreach(level ${POSEIDON_LEVELS})
    set(whole ${CMAKE_CURRENT_BINARY_DIR}/${kernels}_${level}.o)
    add_custom_command(OUTPUT ${whole} VERBATIM COMMAND_EXPAND_LISTS
      COMMENT "Linking the objects of ${kernels}_${level} into one"
      COMMAND ${CMAKE_LINKER} -r --force-group-allocation $<TARGET_OBJECTS:${kernels}_${level}> -o ${whole}
      COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=*2${level}*${entry}* ${whole}
      DEPENDS $<TARGET_OBJECTS:${kernels}_${level}>)
    set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${name} PRIVATE ${whole})
  endforeach()
endfunction()
