/** Whether the variants run, too, that find little beside the others: AGENTD_TEST_ALL=1, as before a release. */
export const everything = process.env['AGENTD_TEST_ALL'] === '1';

/** The whole list where everything runs, else these few of it; says how many are left out. */
export function oftenOnly<T>(list: readonly T[], few: readonly NoInfer<T>[]): readonly T[] {
  if (everything) return list;
  const left = list.length - few.length;
  if (left > 0) console.log(`${left} of ${list.length} variants are left out; AGENTD_TEST_ALL=1 runs them`);
  return few;
}
