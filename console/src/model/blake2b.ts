/** BLAKE2b, for the ids of children: the server makes them of parent and step, and so can we. Short inputs only. */

const MASK = (1n << 64n) - 1n;
const IV = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
] as const;
const SIGMA = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => parseInt(digit, 16)));
const LANES = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]] as const;

const turned = (word: bigint, by: bigint): bigint => ((word >> by) | (word << (64n - by))) & MASK;

function compress(state: bigint[], block: bigint[], count: bigint, isLast: boolean): void {
  const v = [...state, ...IV] as bigint[];
  v[12]! ^= count;
  if (isLast) v[14]! ^= MASK;
  for (let round = 0; round < 12; round++) {
    const order = SIGMA[round % 10]!;
    LANES.forEach(([a, b, c, d], lane) => {
      v[a] = (v[a]! + v[b]! + block[order[2 * lane]!]!) & MASK;
      v[d] = turned(v[d]! ^ v[a]!, 32n);
      v[c] = (v[c]! + v[d]!) & MASK;
      v[b] = turned(v[b]! ^ v[c]!, 24n);
      v[a] = (v[a]! + v[b]! + block[order[2 * lane + 1]!]!) & MASK;
      v[d] = turned(v[d]! ^ v[a]!, 16n);
      v[c] = (v[c]! + v[d]!) & MASK;
      v[b] = turned(v[b]! ^ v[c]!, 63n);
    });
  }
  for (let i = 0; i < 8; i++) state[i]! ^= v[i]! ^ v[i + 8]!;
}

/** The digest of `text` in hexadecimal, of `size` bytes. */
export function blake2b(text: string, size: number): string {
  const bytes = new TextEncoder().encode(text);
  const state: bigint[] = [...IV];
  state[0]! ^= 0x01010000n ^ BigInt(size);
  const blocks = Math.max(1, Math.ceil(bytes.length / 128));
  for (let at = 0; at < blocks; at++) {
    const block = Array.from({ length: 16 }, (_, word) => {
      let value = 0n;
      for (let i = 7; i >= 0; i--) value = (value << 8n) | BigInt(bytes[at * 128 + word * 8 + i] ?? 0);
      return value;
    });
    compress(state, block, BigInt(Math.min(bytes.length, (at + 1) * 128)), at === blocks - 1);
  }
  let hex = "";
  for (let i = 0; i < size; i++) hex += Number((state[i >> 3]! >> BigInt(8 * (i & 7))) & 255n).toString(16).padStart(2, "0");
  return hex;
}

/** The id of the child that a step of `parent` spawns: core/ids.py, `child_id`. */
export function childId(parent: string, step: string): string {
  return `${parent}.${blake2b(step, 5)}`;
}
