import { useSignal } from '@preact/signals';
import { legible } from '../../../base/strings.ts';
import type { SessionOverview } from '../../../client/inspect/session-overview.ts';
import { isConnected, logOut } from '../data/api.ts';
import { isPushed, notificationState, toggleNotifications } from '../data/notifications.ts';
import { filter, groups, hasDaemon, hrefOf, isUnread, listProblem, route, sessions } from '../data/overview.ts';
import { Button, bound, Empty, Loading, Notice, set } from '../parts/controls.tsx';
import { StateSign } from '../parts/icons.tsx';
import { chooseLanguage, formatTime, LANGUAGES, words } from '../text/wording.ts';
import { KeyboardButton } from './keyboard.tsx';

/** How many are listed at first, and more each time a reader asks. */
const MOST = 100;

/** All sessions, grouped by what they need from a person. */
export function SessionList() {
  const { sessions: title, noSessions, noMatch, keys, moreSessions } = words.value;
  const most = useSignal(MOST);
  const count = groups.value.reduce((sum, [, entries]) => sum + entries.length, 0);
  let room = most.value;
  const shownGroups = groups.value.flatMap(([group, entries]) => {
    const shown = entries.slice(0, Math.max(0, room));
    room -= shown.length;
    return shown.length > 0 ? [[group, shown] as const] : [];
  });
  return (
    <nav class="sessions" aria-label={title}>
      <div class="row">
        <h1>agentd</h1>
        <a class="button main" href="#/new" aria-current={route.value.page === 'new' ? 'page' : undefined}>
          {keys.create}
        </a>
      </div>
      {route.value.page !== 'session' && <Faults />}
      <input type="search" id="filter" aria-label={keys.filter} placeholder={keys.filter} {...bound(filter)} />
      {listProblem.value !== '' && <Notice isProblem>{listProblem.value}</Notice>}
      {!sessions.value && isConnected.value && listProblem.value === '' && <Loading />}
      {sessions.value?.length === 0 && <Empty title={noSessions} />}
      {filter.value.trim() !== '' && groups.value.length === 0 && (
        <p class="quiet" role="status">
          {noMatch}
        </p>
      )}
      {shownGroups.map(([group, entries]) => (
        <section key={group} aria-label={group}>
          <h2>{group}</h2>
          <ul>
            {entries.map((entry) => (
              <li key={entry.name} class="entry-row">
                <Entry {...entry} />
              </li>
            ))}
          </ul>
        </section>
      ))}
      {count > most.value && <Button onClick={set(most, most.value + MOST)}>{moreSessions(count - most.value)}</Button>}
      <Settings />
    </nav>
  );
}

function Entry(entry: SessionOverview) {
  const { name, label, title, standing, plan, changed, inbox, plan_problem, waits } = entry;
  const isOpen = route.value.page === 'session' && route.value.name === name;
  // There is no room for Markdown.
  const matter = legible(waits?.why ?? plan_problem ?? '').replace(/\*\*|`/g, '');
  return (
    <a class="entry" href={hrefOf(name)} aria-current={isOpen ? 'page' : undefined}>
      <StateSign state={standing} />
      <strong class="title">{legible(title ?? label)}</strong>
      <span class="quiet about">
        {matter !== '' && <span class="line matter">{matter}</span>}
        {waits?.until && <span class="line">{words.value.goesOn(formatTime(waits.until))}</span>}
        {inbox > 0 && <span class="line">{words.value.waitingMessages(inbox)}</span>}
        <span class="line">
          {plan && plan.total > 0 && `${plan.completed}/${plan.total} · `}
          {changed !== null && <time dateTime={changed}>{formatTime(changed)}</time>} {title !== null && label}
        </span>
      </span>
      {!isOpen && isUnread(entry) && <span class="unread" role="img" aria-label={words.value.unread} />}
    </a>
  );
}

/** What keeps all sessions from working, shown once. */
export function Faults() {
  if (!isConnected.value) return <Notice>{words.value.lost}</Notice>;
  return hasDaemon.value ? null : <Notice>{words.value.noDaemon}</Notice>;
}

function Settings() {
  const { language, access, tag, keys } = words.value;
  return (
    <div class="row settings">
      <a class="details" href="#/details" aria-current={route.value.page === 'details' ? 'page' : undefined}>
        {keys.details}
      </a>
      <label>
        <span class="quiet">{language} </span>
        <select value={tag} onChange={({ currentTarget }) => chooseLanguage(currentTarget.value)}>
          {LANGUAGES.map((one) => (
            <option key={one.tag} value={one.tag} lang={one.tag}>
              {one.name}
            </option>
          ))}
        </select>
      </label>
      <KeyboardButton />
      <NotificationSwitch />
      <Button onClick={() => logOut().catch(() => {})}>{access.logout}</Button>
    </div>
  );
}

/** Switches notifications on and off, or says why they are not available. */
function NotificationSwitch() {
  const { notify, notifyHint, notifyOpen, cannotNotify } = words.value;
  const { value: state } = notificationState;
  if (state === 'blocked' || state === 'insecure') return <p class="quiet">{cannotNotify[state]}</p>;
  return (
    <Button isPressed={state === 'on'} hint={notifyHint} onClick={toggleNotifications}>
      {state === 'on' && !isPushed.value ? notifyOpen : notify}
    </Button>
  );
}
