/**
 * The link layer's unit: 80 bits, of which 8 are CRC, and of a data flit 64 data. The physical layer has 20
 * lanes, so that a flit takes four transfers.
 */
export const FLIT_BYTES = 10;
