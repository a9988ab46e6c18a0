import { useSignal } from '@preact/signals';
import { sendOnce, sessionPath } from '../data/api.ts';
import { hrefOf, sessions } from '../data/overview.ts';
import {
  act,
  actionProblem,
  answerApproval,
  type SessionView,
  sendMessage,
  type WaitingCall,
} from '../data/session.ts';
import { FOCUSABLE, renderMarkdown } from '../text/markdown.tsx';
import { formatTime, words } from '../text/wording.ts';
import { Button, Notice } from './controls.tsx';

/** What can be said to a session now: a decision about a call, the answer to a question, or a message. */
export function Composer({ view, approvals }: { view: SessionView; approvals: readonly WaitingCall[] }) {
  const [call] = approvals;
  if (call) return <Approval key={`${call.session} ${call.hash}`} {...call} />;
  const { question, name } = view;
  if (!question) return <MessageField session={name} label={words.value.message} />;
  return (
    <section class="composer ask" aria-label={words.value.asksYou}>
      <h2>{words.value.asksYou}</h2>
      {renderMarkdown(question.text)}
      <div class="row">
        {question.choices.map((choice) => (
          <Button key={choice} kind="main" onClick={() => sendMessage(name, choice)}>
            {choice}
          </Button>
        ))}
      </div>
      <MessageField session={name} label={words.value.otherAnswer} />
    </section>
  );
}

/** The call as it will run, to the letter, and the decisions about it. */
function Approval(call: WaitingCall) {
  const { wantsApproval, allow, deny, always, expires } = words.value;
  const isSent = useSignal(false);
  const answer = async (decision: 'allow' | 'deny' | 'always') => {
    isSent.value = true;
    isSent.value = await answerApproval(call, decision);
  };
  return (
    <section class="composer ask" aria-label={wantsApproval}>
      <h2>{wantsApproval}</h2>
      <p>
        <code>{call.tool}</code> {call.why}
      </p>
      <pre {...FOCUSABLE}>{call.shows}</pre>
      {call.problem !== null && <Notice isProblem>{call.problem}</Notice>}
      <div class="row">
        <Button kind="main" disabled={isSent.value} onClick={() => answer('allow')}>
          {allow}
        </Button>
        <Button kind="danger" disabled={isSent.value} onClick={() => answer('deny')}>
          {deny}
        </Button>
        {call.always !== null && (
          <Button disabled={isSent.value} onClick={() => answer('always')}>
            {always(call.always)}
          </Button>
        )}
      </div>
      <p class="quiet">{`${expires}: ${formatTime(call.expires_at)}`}</p>
    </section>
  );
}

/** What is half typed stays with its session, also when the page is loaded again. */
const draftKey = (session: string): string => `agentd.draft.${session}`;

type FieldProps = {
  session: string;
  label: string;
  /** False where it was not sent. */
  send?: (text: string) => Promise<boolean>;
};

/** A field for a text to a session. */
export function MessageField({ session, label, send = (text) => sendMessage(session, text) }: FieldProps) {
  const text = useSignal(localStorage.getItem(draftKey(session)) ?? '');
  const isSending = useSignal(false);
  const write = (typed: string) => {
    text.value = typed;
    if (typed === '') localStorage.removeItem(draftKey(session));
    else localStorage.setItem(draftKey(session), typed);
  };
  const submit = async () => {
    const sent = text.value.trim();
    if (sent === '' || isSending.value) return;
    isSending.value = true;
    if (await send(sent)) write('');
    isSending.value = false;
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <label>
        {label}
        <textarea
          id="message"
          rows={2}
          value={text.value}
          readOnly={isSending.value}
          onInput={({ currentTarget }) => write(currentTarget.value)}
          onKeyDown={(event) => {
            // Enter that ends the input of Chinese characters sends nothing.
            if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            void submit();
          }}
        />
      </label>
      <div class="row">
        <button type="submit" class="main" disabled={isSending.value || text.value.trim() === ''}>
          {isSending.value ? words.value.sending : words.value.send}
        </button>
        <span class="quiet">{words.value.messageHint}</span>
      </div>
    </form>
  );
}

/** A session begins with its first message. */
export function NewSession() {
  const { newSession, sessionName, task, back } = words.value;
  const name = useSignal(freeName());
  const send = async (text: string) => {
    const session = name.value.trim() || freeName();
    const isSent = await act(() => sendOnce(sessionPath(session, '/messages'), { text }));
    if (isSent) location.hash = hrefOf(session);
    return isSent;
  };
  return (
    <main class="session" aria-label={newSession}>
      <header>
        <a class="back" href="#/">
          ‹ {back}
        </a>
        <h1>{newSession}</h1>
      </header>
      <div class="new">
        <label>
          {sessionName}
          <input
            value={name.value}
            onInput={({ currentTarget }) => {
              name.value = currentTarget.value;
            }}
          />
        </label>
        {actionProblem.value !== undefined && <Notice isProblem>{actionProblem.value}</Notice>}
        <MessageField session="" label={task} send={send} />
      </div>
    </main>
  );
}

/** The day, and a number where there are more on it. */
function freeName(): string {
  const day = new Date().toISOString().slice(0, 10);
  const taken = new Set(sessions.peek()?.map(({ name }) => name));
  for (let number = 1; ; number++) {
    const name = number === 1 ? day : `${day}-${number}`;
    if (!taken.has(name)) return name;
  }
}
