import { signal } from '@preact/signals';
import { english, type Words } from './english.ts';

/** Every language of the page, in the order in which they are offered; all but the first are loaded on demand. */
export const LANGUAGES = [
  { tag: 'en', name: 'English', load: async (): Promise<Words> => english },
  { tag: 'zh', name: '中文', load: async () => (await import('./chinese.ts')).chinese },
] as const;

const STORED = 'agentd.language';

/** The language in use. */
export const words = signal<Words>(english);

/** If its texts cannot be loaded, the language stays as it is. */
export async function chooseLanguage(tag: string): Promise<void> {
  const found = await LANGUAGES.find((one) => one.tag === tag)
    ?.load()
    .catch(() => undefined);
  if (!found) return;
  words.value = found;
  localStorage.setItem(STORED, tag);
}

/** Chooses the language: the one chosen in this browser, else by the browser's language preferences. */
export async function loadWords(): Promise<void> {
  const wanted = [localStorage.getItem(STORED) ?? '', ...navigator.languages].map((tag) => tag.slice(0, 2));
  const [found] = wanted.flatMap((tag) => LANGUAGES.find((one) => one.tag === tag) ?? []);
  if (found) words.value = await found.load().catch(() => english);
}

/** A time of day, with the date if it is not today. */
export function formatTime(at: string): string {
  const time = new Date(at);
  const isToday = time.toDateString() === new Date().toDateString();
  const format: Intl.DateTimeFormatOptions = isToday
    ? { timeStyle: 'short' }
    : { dateStyle: 'short', timeStyle: 'short' };
  return new Intl.DateTimeFormat(words.value.tag, format).format(time);
}

/** The day of a time in words: today, a day of this week, or its month. */
export function formatDay(at: string): string {
  const time = new Date(at);
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(at).setHours(0, 0, 0, 0)) / 86_400_000);
  const { tag } = words.value;
  if (days <= 1) return new Intl.RelativeTimeFormat(tag, { numeric: 'auto' }).format(-days, 'day');
  return new Intl.DateTimeFormat(tag, days < 7 ? { weekday: 'long' } : { month: 'long', year: 'numeric' }).format(time);
}

/** A duration in seconds, minutes or hours. */
export function formatDuration(ms: number, unitDisplay: 'short' | 'narrow' = 'short'): string {
  const [value, unit] =
    ms < 60_000 ? [ms / 1000, 'second'] : ms < 3_600_000 ? [ms / 60_000, 'minute'] : [ms / 3_600_000, 'hour'];
  // A clock that counts tenths would only flicker.
  const maximumFractionDigits = value < 10 && (unit !== 'second' || unitDisplay === 'short') ? 1 : 0;
  const format = { style: 'unit', unit, unitDisplay, maximumFractionDigits } as const;
  return new Intl.NumberFormat(words.value.tag, format).format(value);
}

/** A size in bytes, KB, MB or GB. */
export function formatBytes(bytes: number): string {
  const power = Math.min(3, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const unit = (['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const)[power] ?? 'byte';
  const value = bytes / 1000 ** power;
  const maximumFractionDigits = power > 0 && value < 10 ? 1 : 0;
  const unitDisplay = power === 0 ? 'long' : 'short';
  const format = { style: 'unit', unit, unitDisplay, maximumFractionDigits } as const;
  return new Intl.NumberFormat(words.value.tag, format).format(value);
}

/** A cost, in the currency of the prices in the settings. */
export const formatCost = (cost: number): string =>
  new Intl.NumberFormat(words.value.tag, { minimumFractionDigits: 2, maximumFractionDigits: cost < 1 ? 4 : 2 }).format(
    cost,
  );

export const formatNumber = (value: number): string =>
  new Intl.NumberFormat(words.value.tag, { notation: 'compact' }).format(value);

/** A number of tokens, with a tilde where it is estimated. */
export const formatTokens = ({ tokens, estimated }: { tokens: number; estimated?: true | undefined }): string =>
  `${estimated ? '~' : ''}${formatNumber(tokens)}`;
