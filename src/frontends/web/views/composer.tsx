import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { legible } from '../../../base/strings.ts';
import type { MessageOptions } from '../../../protocol/session/message.ts';
import { attachFiles, detachAll, detachFile, pendingFiles, uploadPending } from '../data/files.ts';
import { answerApproval, type SessionView, sendCommand, sendMessage, type WaitingCall } from '../data/session.ts';
import { Button, Folded, Notice, onEnter, onSubmit, set } from '../parts/controls.tsx';
import { Icon } from '../parts/icons.tsx';
import { renderMarkdown } from '../parts/markdown.tsx';
import { formatBytes, formatTime, words } from '../text/wording.ts';
import { verbOf } from './call-entry.tsx';

/** Answers that have a button or a field of their own. */
const SAID_ELSEWHERE: ReadonlySet<string> = new Set(['…', 'continue', '/cancel', 'yes', 'no']);

/** What a person can send to a session now: a decision about a call, the answer to a question, or a message. */
export function Composer({ view, approvals }: { view: SessionView; approvals: readonly WaitingCall[] }) {
  const [call] = approvals;
  if (call) return <Approval key={`${call.session} ${call.hash}`} {...call} />;
  const { question, waits, name } = view;
  const answers = waits?.needs === 'person' ? waits.say.filter((one) => !SAID_ELSEWHERE.has(one)) : [];
  if (!question && answers.length === 0) return <MessageField session={name} label={words.value.message} />;
  return (
    <section class="ask" aria-label={words.value.asksYou}>
      <h2>{words.value.asksYou}</h2>
      {renderMarkdown(legible(question?.text ?? ''))}
      <div class="row">
        {(question?.choices ?? answers).map((choice) => (
          <Button key={choice} kind="main" onClick={() => sendMessage(name, choice)}>
            {legible(choice)}
          </Button>
        ))}
        {question && (
          <Button kind="quiet-button" onClick={() => sendCommand(name, 'continue')}>
            {words.value.letItDecide}
          </Button>
        )}
      </div>
      <MessageField session={name} label={words.value.otherAnswer} />
    </section>
  );
}

/** The exact call, and buttons to decide on it. */
function Approval(call: WaitingCall) {
  const { wantsApproval, wantsTo, askedBecause, allow, deny, always, expires } = words.value;
  const isSent = useSignal(false);
  const answer = async (decision: 'allow' | 'deny' | 'always') => {
    isSent.value = true;
    isSent.value = await answerApproval(call, decision);
  };
  return (
    <section class="ask" aria-label={wantsApproval}>
      <h2>{wantsTo(verbOf(call.tool))}</h2>
      <Folded isOutput text={call.tool === 'shell' ? `$ ${call.display}` : call.display} />
      <p class="quiet">{askedBecause(call.why)}</p>
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

/** Drafts are stored per session, so that they survive a reload. */
export const draftKey = (session: string): string => `agentd.draft.${session}`;

type FieldProps = {
  session: string;
  label: string;
  /** The name of the session to create for this text, if it does not exist yet. */
  to?: (text: string) => string;
  options?: () => MessageOptions;
  onText?: (text: string) => void;
  onSent?: (session: string) => void;
};

/** A field for a message to a session. */
export function MessageField({ session, label, to = () => session, options, onText, onSent }: FieldProps) {
  const text = useSignal(localStorage.getItem(draftKey(session)) ?? '');
  const isSending = useSignal(false);
  const hasFiles = (pendingFiles.value[session]?.length ?? 0) > 0;
  const write = (typed: string) => {
    text.value = typed;
    onText?.(typed);
    if (typed === '') localStorage.removeItem(draftKey(session));
    else localStorage.setItem(draftKey(session), typed);
  };
  const submit = async () => {
    const sent = text.value.trim();
    if ((sent === '' && !hasFiles) || isSending.value) return;
    isSending.value = true;
    const name = to(sent);
    if (await sendMessage(name, sent, { files: () => uploadPending(session, name), options: options?.() })) {
      write('');
      detachAll(session);
      onSent?.(name);
    }
    isSending.value = false;
  };
  return (
    <form class="composer" onSubmit={onSubmit(submit)}>
      <AttachedFiles session={session} />
      <textarea
        id="message"
        aria-label={label}
        title={words.value.messageHint}
        placeholder={label}
        rows={1}
        value={text.value}
        readOnly={isSending.value}
        onInput={({ currentTarget }) => write(currentTarget.value)}
        onPaste={(event) => {
          if (event.clipboardData?.files.length) attachFiles(session, event.clipboardData.files);
        }}
        onKeyDown={onEnter(submit)}
      />
      <AttachButton session={session} />
      <button type="submit" class="main" disabled={isSending.value || (text.value.trim() === '' && !hasFiles)}>
        {isSending.value ? words.value.sending : words.value.send}
      </button>
    </form>
  );
}

/** A button to choose files; they may also be dropped anywhere on the page, or pasted into the field. */
function AttachButton({ session }: { session: string }) {
  const { attaching, dropHere } = words.value;
  const chooser = useRef<HTMLInputElement>(null);
  const isDragging = useSignal(false);
  useEffect(() => {
    const ends = new AbortController();
    const onFiles = (take: (event: DragEvent) => void) => (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      take(event);
    };
    const { signal } = ends;
    const leave = set(isDragging, false);
    const drop = onFiles(({ dataTransfer }) => attachFiles(session, dataTransfer?.files ?? []));
    addEventListener('dragover', onFiles(set(isDragging, true)), { signal });
    addEventListener('dragleave', ({ relatedTarget }) => relatedTarget === null && leave(), { signal });
    addEventListener('drop', drop, { signal });
    addEventListener('drop', leave, { signal });
    return () => ends.abort();
  }, [session]);
  return (
    <>
      <Button kind="quiet-button" label={attaching.attach} hint={dropHere} onClick={() => chooser.current?.click()}>
        <Icon name="clip" />
      </Button>
      <input
        ref={chooser}
        type="file"
        multiple
        hidden
        onChange={({ currentTarget }) => {
          attachFiles(session, currentTarget.files ?? []);
          currentTarget.value = '';
        }}
      />
      {isDragging.value && <p class="drop">{dropHere}</p>}
    </>
  );
}

/** The files attached to the next message, with their state. */
function AttachedFiles({ session }: { session: string }) {
  const { attaching, detach } = words.value;
  const files = pendingFiles.value[session] ?? [];
  if (files.length === 0) return null;
  return (
    <ul class="attached" aria-label={attaching.attached}>
      {files.map(({ file, isSending, problem }) => (
        <li key={file} class="row">
          <span class="name">{file.name}</span>
          <span class="quiet">{isSending ? attaching.uploading : formatBytes(file.size)}</span>
          <Button label={detach(file.name)} disabled={isSending} onClick={() => detachFile(session, file)}>
            ×
          </Button>
          {problem !== undefined && <Notice isProblem>{problem}</Notice>}
        </li>
      ))}
    </ul>
  );
}
