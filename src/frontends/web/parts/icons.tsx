import type { Words } from '../text/english.ts';
import { words } from '../text/wording.ts';

export type State = keyof Words['states'];

/** Strokes on a field of 16 × 16. */
const STROKES = {
  back: 'M10 3.5 5.5 8l4.5 4.5',
  unfold: 'M6 3.5 10.5 8 6 12.5',
  check: 'M4 8.5l2.75 2.75L12 5.5',
  cross: 'M5 5l6 6M11 5l-6 6',
  dash: 'M4.5 8h7',
  pause: 'M6.25 5v6M9.75 5v6',
  bang: 'M8 4.25v4.5M8 11.5v.25',
  ask: 'M6 6.25a2 2 0 1 1 2.75 1.85c-.5.2-.75.5-.75 1.15M8 11.75v.1',
  dot: 'M8 7.9v.2',
  ring: '',
  plus: 'M8 3.5v9M3.5 8h9',
  up: 'M8 12.5v-9M4.5 7 8 3.5 11.5 7',
  down: 'M8 3.5v9M4.5 9 8 12.5 11.5 9',
  clip: 'M12.5 7.5l-4.6 4.6a2.6 2.6 0 0 1-3.7-3.7l5-5a1.7 1.7 0 0 1 2.4 2.4l-4.9 4.9a.8.8 0 0 1-1.2-1.2l4.3-4.3',
  send: 'M8 13V3.5M3.5 8 8 3.5 12.5 8',
} as const;
export type IconName = keyof typeof STROKES;

/** A drawing beside a text, or in a button that has a label. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={STROKES[name]} />
    </svg>
  );
}

const ICON_OF: Readonly<Record<State, IconName>> = {
  pending: 'ring',
  none: 'ring',
  running: 'dot',
  waiting: 'ask',
  paused: 'pause',
  completed: 'check',
  ok: 'check',
  failed: 'cross',
  cancelled: 'cross',
  unreadable: 'cross',
  blocked: 'bang',
  interrupted: 'bang',
  denied: 'cross',
  skipped: 'dash',
};

/** States for which the sign is enough; the word is there for screen readers. */
const USUAL: ReadonlySet<State> = new Set(['pending', 'none', 'running', 'completed', 'ok']);

/** `isLoud`: the word is always visible. */
type StateProps = { state: State; text?: string | undefined; isLoud?: boolean };

/** A state as its sign. The word is visible only if the state is not as usual. */
export function StateSign({ state, text = words.value.states[state], isLoud = false }: StateProps) {
  const word = <span class={USUAL.has(state) && !isLoud ? 'unseen' : 'word'}>{text}</span>;
  return (
    <span class={`state ${state}`}>
      <span class="mark">
        <Icon name={ICON_OF[state]} />
      </span>{' '}
      {word}
    </span>
  );
}

/** A state as sign and word. */
export const StateLabel = (props: StateProps) => <StateSign {...props} isLoud />;
