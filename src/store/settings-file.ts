import type { World } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import type { LastGood } from './last-good.ts';
import type { Checked } from './settings.ts';

/** A file that is gone is believed gone after this long: some editors take the old one away before they put the new one there. */
const GONE_MS = 1000;

/** Settings that are in force, and how it stands with the file they come from. */
export type Held<T> = {
  value: T;
  /** `nothing`: the file does not hold and none did before, so nothing may be done by it. */
  from: 'file' | 'last good' | 'nothing';
  /** Why the file as it is now does not hold: the place, what was wanted, what came. */
  fault: string | null;
  /** What in the file was not understood and left out. */
  warnings: readonly string[];
  /** When these came into force, ISO 8601; null where there is no file. */
  since: string | null;
};

export type SettingsFile<T> = {
  /** Reads the file again where it changed. Never throws. */
  look(): Held<T>;
  /** What the last look found. */
  readonly held: Held<T>;
  /** There is reason to look again soon. */
  readonly unsettled: boolean;
};

type Options<T> = {
  /** How the file is called in what is said of it. */
  label: string;
  /** Its text; undefined where there is none. */
  read: () => string | undefined;
  /** Throws UserError where the text does not hold. */
  check: (text: string) => Checked<T>;
  /** What holds where there is no file. */
  none: T;
  copy: LastGood;
  /** Told of each settings that come into force, before they do. */
  learn: (value: T) => void;
  clock: { now: () => Date; elapsed: () => number };
  log: World['log'];
};

/**
 * The settings of one file. They fail closed: what protects is not dropped because its file is broken, but holds as it held last,
 * through restarts too; where nothing ever held, `from` is `nothing`.
 */
export function settingsFile<T>({ label, read, check, none, copy, learn, clock, log }: Options<T>): SettingsFile<T> {
  let held: Held<T> = { value: none, from: 'file', fault: null, warnings: [], since: null };
  /** The text these settings come from; undefined where there is none. */
  let good: string | undefined;
  /** The text that was found wanting last. */
  let bad: string | undefined;
  let fresh = true;
  let goneAt: number | null = null;

  function look(): Held<T> {
    try {
      const text = read();
      if (fresh && text === undefined) recall();
      if (text === undefined) missing();
      else if (text !== good || held.from !== 'file') present(text);
      else goneAt = null;
    } catch (error) {
      bad = undefined;
      broken(errorText(error));
    }
    fresh = false;
    return held;
  }

  function present(text: string): void {
    goneAt = null;
    if (text === bad) return;
    let checked: Checked<T>;
    try {
      checked = check(text);
    } catch (error) {
      broken(errorText(error));
      bad = text;
      return;
    }
    const before = good ?? copy.read();
    const isNews = text !== before;
    if (isNews || held.fault !== null) keep(text);
    if (isNews && !(fresh && before === undefined)) log('info', `${label}: changed, and in force from now on`);
    else if (held.fault !== null) log('info', `${label}: holds again`);
    take(checked, text, 'file');
    for (const warning of checked.warnings) log('warn', warning);
  }

  /** A copy that cannot be written is no reason not to go by the file. */
  function keep(text: string): void {
    try {
      copy.keep(text);
    } catch (error) {
      log('warn', `${label}: no copy was kept for the case that it is broken: ${errorText(error)}`);
    }
  }

  function take(
    { value, warnings }: Checked<T>,
    text: string,
    from: Held<T>['from'],
    fault: string | null = null,
  ): void {
    learn(value);
    held = { value, from, fault, warnings, since: (copy.at() ?? clock.now()).toISOString() };
    good = text;
    bad = undefined;
  }

  function broken(fault: string): void {
    goneAt = null;
    if (fresh) recall();
    if (held.fault !== fault) {
      const force =
        good === undefined
          ? 'there are none that held before: nothing is done by it until it holds'
          : `the settings that held last are in force (${copy.path})`;
      log('error', `${label}: ${fault}\nThe file is left as it is; ${force}. Mend it; it is taken at once.`);
    }
    held = { ...held, from: good === undefined ? 'nothing' : 'last good', fault };
  }

  /** What an earlier daemon kept; a copy that does not hold by today's rules is none. */
  function recall(): void {
    const text = copy.read();
    if (text === undefined) return;
    try {
      take(check(text), text, 'last good');
    } catch {
      good = undefined;
    }
  }

  function missing(): void {
    bad = undefined;
    if (good !== undefined) {
      goneAt ??= clock.elapsed();
      if (clock.elapsed() - goneAt < GONE_MS) return;
      log('info', `${label}: is gone, and holds no longer`);
    }
    if (good !== undefined || held.fault !== null) {
      copy.forget();
      held = { value: none, from: 'file', fault: null, warnings: [], since: null };
    }
    good = undefined;
    goneAt = null;
  }

  return {
    look,
    get held() {
      return held;
    },
    get unsettled() {
      return held.fault !== null || goneAt !== null;
    },
  };
}
