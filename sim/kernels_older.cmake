# kernels_older.cmake -- writes to OUT the PTX of IN as it was when Turing was new, so that drivers
# older than the compiler read it.  What has to go is a hint; a compiler that puts more into it than
# that version has is told so when the tests assemble it.
file(READ "${IN}" text)
string(REGEX REPLACE "\n[^\n]*\\.pragma \"used_bytes_mask [^\n]*" "" text "${text}")
string(REGEX REPLACE "\n\\.version [0-9.]+" "\n.version 6.3" text "${text}")
file(WRITE "${OUT}" "${text}")
