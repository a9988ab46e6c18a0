import { useSignal } from '@preact/signals';
import type { TemplateSummary } from '../../../client/actions/saved-templates.ts';
import type { Mode } from '../../../protocol/settings/run-options.ts';
import { goTo, hrefOf, sessions } from '../data/overview.ts';
import { actionProblem, useJson } from '../data/session.ts';
import { Button, bound, Notice, PageHeader, Unfold } from '../parts/controls.tsx';
import { words } from '../text/wording.ts';
import { draftKey, MessageField } from './composer.tsx';

/** `npm run docs` writes this list. */
const MODES: readonly Mode[] = ['linear', 'plan-act', 'todo', 'dag', 'map-reduce', 'auto'];

export function NewSession() {
  const { keys } = words.value;
  return (
    <main class="session" aria-label={keys.create}>
      <PageHeader title={keys.create} />
      <NewTask />
    </main>
  );
}

/** Creates a session by what should be done. Its name is made from that unless a person gives one. */
export function NewTask() {
  const { whatToDo, firstMessage, sessionName, mode, asInSettings, mostCalls, options } = words.value;
  const task = useSignal(localStorage.getItem(draftKey('')) ?? '');
  const [name, chosenMode, most] = [useSignal(''), useSignal(''), useSignal('')];
  const filled = useSignal(0);
  const use = (text: string) => {
    localStorage.setItem(draftKey(''), text);
    task.value = text;
    filled.value++;
  };
  return (
    <div class="new">
      <h2>{whatToDo}</h2>
      {actionProblem.value !== undefined && <Notice isProblem>{actionProblem.value}</Notice>}
      <MessageField
        key={filled.value}
        session=""
        label={firstMessage}
        to={(text) => name.value.trim() || nameFor(text)}
        options={() => ({
          ...(MODES.flatMap((one) => (one === chosenMode.value ? { mode: one } : []))[0] ?? {}),
          ...(Number(most.value) > 0 && { limits: { iterations: Number(most.value) } }),
        })}
        onText={(text) => {
          task.value = text;
        }}
        onSent={(session) => goTo(hrefOf(session))}
      />
      <Templates use={use} />
      <Unfold summary={options}>
        {() => (
          <div class="options">
            <label>
              {sessionName}
              <input {...bound(name)} placeholder={nameFor(task.value)} />
            </label>
            <label>
              {mode}
              <select
                value={chosenMode.value}
                onChange={({ currentTarget }) => {
                  chosenMode.value = currentTarget.value;
                }}
              >
                <option value="">{asInSettings}</option>
                {MODES.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            </label>
            <label>
              {mostCalls}
              <input type="number" min="1" placeholder={asInSettings} {...bound(most)} />
            </label>
          </div>
        )}
      </Unfold>
    </div>
  );
}

/** The templates of the workspace that can be run; one is written into the field, to be completed. */
function Templates({ use }: { use: (text: string) => void }) {
  const { value = [] } = useJson<TemplateSummary[]>('/api/templates');
  const usable = value.filter(({ faults }) => faults.length === 0);
  if (usable.length === 0) return null;
  return (
    <section class="templates" aria-label={words.value.templates}>
      <h2>{words.value.templates}</h2>
      <div class="row">
        {usable.map(({ name, description, usage }) => (
          <Button key={name} hint={description ?? usage} onClick={() => use(usage)}>
            {name}
          </Button>
        ))}
      </div>
    </section>
  );
}

const MAX_NAME = 40;

/** A name that is free: the first words of the task, or the date. */
function nameFor(task: string): string {
  const [first = '', ...rest] = task.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  let name = [...first].slice(0, MAX_NAME).join('');
  for (const word of rest) {
    if (name.length + word.length >= MAX_NAME) break;
    name += `-${word}`;
  }
  if (name === '') name = new Intl.DateTimeFormat('sv').format(new Date());
  const taken = new Set(sessions.peek()?.map((one) => one.label));
  for (let number = 1; ; number++) {
    const free = number === 1 ? name : `${name}-${number}`;
    if (!taken.has(free)) return free;
  }
}
