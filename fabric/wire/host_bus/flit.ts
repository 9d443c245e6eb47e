/**
 * The link layer's unit: 80 bits, of which 8 are CRC and, in a data flit, 64 data. With 20 lanes a
 * flit takes four transfers.
 */
export const FLIT_BYTES = 10;
