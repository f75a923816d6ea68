/* fake_attributes.c -- what the pretended GPU says of itself, by the numbers of
 * cudaDevAttr and CU_DEVICE_ATTRIBUTE, which are the same.
 *
 * FAKECUDA_MODEL chooses: libraries pick kernels and workspaces by these numbers.
 * They are as the runtime of a machine with such a GPU prints them.
 */
#include "fakecuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The same on all of them. */
static const int common[][2] = {
    {1, 1024},                               /* threads of a block, its width and height     */
    {2, 1024},       {3, 1024},  {4, 64},    /* and depth                                    */
    {5, 2147483647},                         /* grid                                         */
    {6, 65535},      {7, 65535}, {8, 49152}, /* shared memory of a block                     */
    {10, 32},                                /* warp size                                    */
    {12, 65536},                             /* registers of a block                         */
    {34, 0},                                 /* PCI device                                   */
    {35, 0},                                 /* driver without display: of Windows           */
    {41, 1},                                 /* unified addresses                            */
    {82, 65536},                             /* registers of a multiprocessor                */
    {95, 1},                                 /* cooperative launch                           */
    {111, 1024},                             /* shared memory of a block that the driver has */
    {115, 1},                                /* memory pools supported                       */
    {119, 0},                                /* pool handle types                            */
};

/* Compute capability; multiprocessors; clocks of these and of the memory, kHz; second-level
 * cache; threads, shared memory and blocks of a multiprocessor; shared memory of a block that
 * asks. */
static const int columns[] = {75, 76, 16, 13, 36, 38, 39, 81, 106, 97};
enum { COLUMNS = sizeof columns / sizeof *columns };
static const struct {
    const char *name;
    int values[COLUMNS];
} models[] = {
    {"h100", {9, 0, 132, 1980000, 2619000, 52428800, 2048, 233472, 32, 232448}},
    {"a100", {8, 0, 108, 1410000, 1593000, 41943040, 2048, 167936, 32, 166912}},
    {"rtx3090", {8, 6, 82, 1695000, 9751000, 6291456, 1536, 102400, 16, 101376}},
    {"rtx4090", {8, 9, 128, 2520000, 10501000, 75497472, 1536, 102400, 24, 101376}},
};
enum { MODELS = sizeof models / sizeof *models };

static size_t model(void)
{
    const char *wanted = getenv("FAKECUDA_MODEL");
    if (!wanted || !*wanted) return 0;
    for (size_t m = 0; m < MODELS; m++)
        if (!strcmp(wanted, models[m].name)) return m;
    fprintf(stderr, "fakecuda: FAKECUDA_MODEL=%s is not known\n", wanted);
    abort();
}

const char *fc_model(void)
{
    return models[model()].name;
}

int fc_attribute(int attribute)
{
    for (size_t c = 0; c < COLUMNS; c++)
        if (columns[c] == attribute) return models[model()].values[c];
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (common[i][0] == attribute) return common[i][1];
    return 0;
}
