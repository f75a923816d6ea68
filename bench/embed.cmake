# embed.cmake -- writes a C file whose array NAME holds the bytes of IN, ending with 0.
file(READ "${IN}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..)" "\\1\n"
       bytes "${bytes}")
file(WRITE "${OUT}.new" "extern const unsigned char ${NAME}[];
extern const unsigned long ${NAME}_size;
const unsigned char ${NAME}[] = {\n${bytes}0};
const unsigned long ${NAME}_size = sizeof ${NAME} - 1;\n")
file(RENAME "${OUT}.new" "${OUT}")
