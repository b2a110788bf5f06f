/* The functions above under one name. */
const kernels KERNELS = {
    .name = KERNELS_NAME,
    .multiply = multiply,
    .quantize = quantize,
    .rms_norm = rms_norm,
    .rotate = rotate,
    .gate = gate,
    .attend = attend,
    .merge = merge,
    .divide = divide,
    .keep = keep,
};
