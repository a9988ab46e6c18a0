/** What an outcome counts for where there is none: nothing would let it slip into a batch that is full (JManus). */
export const MISSING = 100;

/**
 * Puts items together in their order, as many in each batch as fit into `limit`. One that is larger stands alone; none is split and
 * no batch is empty (as JManus fills them).
 */
export function batchesOf<T>(items: readonly T[], sizeOf: (item: T) => number, limit: number): T[][] {
  const batches: T[][] = [];
  let room = 0;
  for (const item of items) {
    const size = sizeOf(item);
    const last = batches.at(-1);
    if (last && size <= room) {
      last.push(item);
      room -= size;
    } else {
      batches.push([item]);
      room = limit - size;
    }
  }
  return batches;
}
