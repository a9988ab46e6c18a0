import { effect, useSignal } from '@preact/signals';
import { render } from 'preact';
import { ApiProblem, isLoggedIn, logIn, logInFromAddress } from './data/api.ts';
import { startNotifications } from './data/notifications.ts';
import { labelOf, route, startOverview, waitingCount } from './data/overview.ts';
import { showSession } from './data/session.ts';
import { bound, Notice, onSubmit } from './parts/controls.tsx';
import { loadWords, words } from './text/wording.ts';
import { DetailsPage } from './views/details-view.tsx';
import { KeyboardHelp, startKeyboard } from './views/keyboard.tsx';
import { NewSession, NewTask } from './views/new-session.tsx';
import { SessionList } from './views/session-list.tsx';
import { SessionPage } from './views/session-page.tsx';

function App() {
  if (isLoggedIn.value === undefined) return null;
  if (!isLoggedIn.value) return <Login />;
  const { value: now } = route;
  return (
    <div class={`app at-${now.page}`}>
      {/* The list is the main content if no session is shown. The element stays the same, to keep the focus. */}
      <div class="aside" role={now.page === 'list' ? 'main' : undefined}>
        <SessionList />
      </div>
      {now.page === 'session' && <SessionPage key={now.name} name={now.name} />}
      {now.page === 'new' && <NewSession />}
      {now.page === 'list' && (
        <section class="session home" aria-label={words.value.keys.create}>
          <NewTask />
        </section>
      )}
      {now.page === 'details' && <DetailsPage />}
      <KeyboardHelp />
    </div>
  );
}

/** Asks for the token and says where to find it. */
function Login() {
  const { access, tokenHint, lost } = words.value;
  const typed = useSignal('');
  const problem = useSignal('');
  const submit = async () => {
    problem.value = '';
    try {
      await logIn(typed.value.trim());
    } catch (error) {
      problem.value = error instanceof ApiProblem ? error.message : lost;
    }
  };
  return (
    <main class="login">
      <h1>agentd</h1>
      <form onSubmit={onSubmit(submit)}>
        <label>
          {access.token}
          <input type="password" autocomplete="off" spellcheck={false} {...bound(typed)} />
        </label>
        <button type="submit" class="main" disabled={typed.value.trim() === ''}>
          {access.login}
        </button>
      </form>
      {problem.value !== '' && <Notice isProblem>{problem.value}</Notice>}
      <p>{tokenHint}</p>
    </main>
  );
}

await Promise.all([loadWords(), logInFromAddress()]);
effect(() => {
  document.documentElement.lang = words.value.tag;
});
effect(() => {
  const name = route.value.page === 'session' ? route.value.name : undefined;
  const count = waitingCount.value;
  document.title = `${count > 0 ? `(${count}) ` : ''}${name === undefined ? '' : `${labelOf(name)} – `}agentd`;
});
effect(() => {
  const { value: now } = route;
  showSession(isLoggedIn.value && now.page === 'session' ? now.name : undefined);
});
startOverview();
startNotifications();
// A URL with a token may also be pasted into an open page.
addEventListener('hashchange', () => void logInFromAddress());
startKeyboard();
render(<App />, document.body);
