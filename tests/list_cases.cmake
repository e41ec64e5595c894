# Runs after a test program is built. Writes LIST, a file with the CTest tests of the program, with the program's label.
# Slow cases of the suite "nightly" (support/nightly.h) get the label nightly.
#
# Each slow case is one test. Most unit cases take less time than the start of their process, mainly with sanitizers. So
# all cases of one source are one test, named by the source. doctest prints the case that fails.
#   -D PROGRAM=... -D LABEL=unit|slow|plans -D LIST=...
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} --list-test-cases --reporters=xml --no-colors=true
                OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM}: cannot list its test cases (${result}):\n${output}${errors}")
endif()

get_filename_component(program ${PROGRAM} NAME)
if(LABEL STREQUAL "unit")
  # A case takes less than a second, but longer with sanitizers or on a busy machine.
  set(properties TIMEOUT 600)
  if(program STREQUAL "test_apps")
    # These tests take up to two minutes and mostly wait for processes. They start first, so that other tests run
    # meanwhile.
    list(APPEND properties COST 200)
  endif()
else()
  # A case takes seconds, so it starts before the unit tests. Its processes or threads use about two CPUs.
  set(properties TIMEOUT 600 PROCESSORS 2 COST 100)
endif()
list(JOIN properties " " properties)

set(script "")
# add_cases(NAME FILTER LABEL): a test of the cases that the filter selects.
function(add_cases name filter label)
  set(test "${program}: ${name}")
  string(APPEND script
    "add_test([==[${test}]==] [==[${PROGRAM}]==] [==[${filter}]==])\n"
    "set_tests_properties([==[${test}]==] PROPERTIES LABELS ${label} ${properties}\n"
    "  FAIL_REGULAR_EXPRESSION \"test cases: +0 \")\n")
  set(script "${script}" PARENT_SCOPE)
endfunction()

# One match at a time, not as a list: a name may contain semicolons and single brackets.
set(sources "")
while(output MATCHES "<TestCase name=\"([^\"]*)\"([^>]*) filename=\"([^\"]*)\"(.*)$")
  set(case "${CMAKE_MATCH_1}")
  set(suite "${CMAKE_MATCH_2}")
  set(source "${CMAKE_MATCH_3}")
  set(output "${CMAKE_MATCH_4}")
  if(LABEL STREQUAL "unit")
    string(REGEX REPLACE "^(.*/)?tests/" "" source "${source}")  # clang removes "./" from a path
    if(NOT source IN_LIST sources)
      list(APPEND sources ${source})
      add_cases(${source} "--source-file=*tests/${source}" unit)
    endif()
  else()
    string(REPLACE "&lt;" "<" case "${case}")
    string(REPLACE "&gt;" ">" case "${case}")
    string(REPLACE "&quot;" "\"" case "${case}")
    string(REPLACE "&amp;" "&" case "${case}")
    # doctest ends a name at a comma. * and ? match any text, also themselves.
    string(REPLACE "," "\\," filter "${case}")
    set(label ${LABEL})
    if(suite MATCHES "testsuite=\"nightly\"")
      set(label nightly)
    endif()
    add_cases("${case}" "--test-case=${filter}" ${label})
  endif()
endwhile()
file(WRITE ${LIST} "${script}")
