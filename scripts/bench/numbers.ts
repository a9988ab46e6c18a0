/** The value below which a given share of the numbers lies; NaN if there are none. */
export function quantile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const mean = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;

export const median = (numbers: readonly number[]): number => quantile(numbers, 0.5);

/** Milliseconds with three significant digits, without the unit. */
export function ms(value: number): string {
  if (value >= 1000) return value.toLocaleString('en', { maximumFractionDigits: 0 });
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : 2);
}

/** Mebibytes, without the unit. */
export const mib = (value: number): string => value.toFixed(0);

/** Bytes in thousands, without the unit. */
export const kb = (value: number): string => (value / 1000).toLocaleString('en', { maximumFractionDigits: 1 });

/** A figure as a multiple of the floor. */
export const times = (value: number, floor: number): string => `${(value / floor).toFixed(2)} ×`;

export const count = (value: number): string => value.toLocaleString('en', { maximumFractionDigits: 0 });

/** A Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
