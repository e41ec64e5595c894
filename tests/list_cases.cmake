# Run after a test program is built: asks it for its cases and writes LIST, a file with one CTest test
# for each of them, under the program's label.
#   -D PROGRAM=... -D LABEL=unit|slow -D LIST=...
execute_process(COMMAND ${PROGRAM} --list-test-cases --no-colors=true
                OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} could not list its test cases (${result}):\n${output}${errors}")
endif()

get_filename_component(program ${PROGRAM} NAME)
if(LABEL STREQUAL "unit")
  # A case takes under a second; sanitizers and busy machines take their share.
  set(properties TIMEOUT 300)
else()
  # It computes on all cores: beside another, both would be much slower.
  set(properties TIMEOUT 600 RUN_SERIAL TRUE)
endif()
list(JOIN properties " " properties)

set(script "")
# Line by line, not as a list: a name may hold semicolons and single brackets.
while(output MATCHES "^([^\n]*)\n(.*)$")
  set(case "${CMAKE_MATCH_1}")
  set(output "${CMAKE_MATCH_2}")
  if(case STREQUAL "" OR case MATCHES "^(\\[doctest\\]|====)")
    continue()
  endif()
  # doctest reads a comma as the end of a name, and * and ? match anything, themselves included.
  string(REPLACE "," "\\," filter "${case}")
  set(test "${program}: ${case}")
  string(APPEND script
    "add_test([==[${test}]==] [==[${PROGRAM}]==] [==[--test-case=${filter}]==])\n"
    "set_tests_properties([==[${test}]==] PROPERTIES LABELS ${LABEL} ${properties}\n"
    "  FAIL_REGULAR_EXPRESSION \"test cases: +0 \")\n")
endwhile()
file(WRITE ${LIST} "${script}")
