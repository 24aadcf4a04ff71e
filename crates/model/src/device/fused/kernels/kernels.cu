// All kernels of passes on a GPU, in one program for it.
#include "attention.h"
#include "decide.h"
#include "product.h"
#include "rows.h"
