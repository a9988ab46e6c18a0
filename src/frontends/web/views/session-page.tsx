import { hrefOf, labelOf, route, type SessionTab, TABS } from '../data/overview.ts';
import { actionProblem, canResume, openSession, type SessionView, sendCommand } from '../data/session.ts';
import { Button, Notice, PageHeader, SureButton, set, Unfold } from '../parts/controls.tsx';
import { StateLabel } from '../parts/icons.tsx';
import { PlanLine, PlanPanel, planInFront, planView } from '../plan/plan-panel.tsx';
import { formatCost, formatDuration, formatTime, formatTokens, words } from '../text/wording.ts';
import { BrowserView } from './browser-view.tsx';
import { Composer } from './composer.tsx';
import { DetailsView } from './details-view.tsx';
import { FilesView } from './files-view.tsx';
import { Faults } from './session-list.tsx';
import { TranscriptLog } from './transcript-log.tsx';
import { VersionsView } from './versions-view.tsx';

/** One session: its state, and its plan beside the conversation or in front of it; and the composer. */
export function SessionPage({ name }: { name: string }) {
  const { tab, path } = route.value.page === 'session' ? route.value : ({ tab: 'run', path: '' } as const);
  const shown = openSession.value;
  const view = shown?.view;
  const isPlanInFront = view?.plan !== null && planInFront.value === name;
  const kinds = ['session', view?.plan && `has-plan plan-as-${planView.value}`, isPlanInFront && 'plan-in-front'];
  return (
    <main class={kinds.filter(Boolean).join(' ')} aria-label={labelOf(name)}>
      <PageHeader title={view?.given_title ?? view?.plan?.title ?? view?.plan?.goal ?? view?.title ?? labelOf(name)}>
        {shown && view && <RunState view={view} isPaused={canResume(shown)} />}
        {view && <PlanLine view={view} />}
      </PageHeader>
      <Tabs name={name} shown={tab} />
      <Problems />
      {view && <PlanPanel key={`plan ${name}`} view={view} />}
      <div class="content">
        {tab === 'run' && <TranscriptLog key={name} />}
        {tab === 'files' && <FilesView session={name} path={path} />}
        {tab === 'versions' && view && <VersionsView view={view} />}
        {tab === 'browser' && view && <BrowserView view={view} />}
        {tab === 'details' && <DetailsView session={name} />}
      </div>
      <div class="foot">
        {actionProblem.value !== undefined && <Notice isProblem>{actionProblem.value}</Notice>}
        {view && <Composer key={`composer ${name}`} view={view} approvals={shown?.approvals ?? []} />}
      </div>
    </main>
  );
}

function Tabs({ name, shown }: { name: string; shown: SessionTab }) {
  const { periods, tabs } = words.value;
  const { browser } = openSession.value?.view ?? {};
  const hasBrowser = browser !== undefined && (browser.open || browser.taken !== null);
  return (
    <nav class="tabs" aria-label={periods.session}>
      {TABS.filter((one) => one !== 'browser' || shown === one || hasBrowser).map((one) => (
        <a
          key={one}
          href={hrefOf(name, one)}
          aria-current={one === shown ? 'page' : undefined}
          onClick={set(planInFront, undefined)}
        >
          {tabs[one]}
        </a>
      ))}
    </nav>
  );
}

/** What keeps the session, or the page, from working. */
function Problems() {
  const { gone, back } = words.value;
  const { view, problem } = openSession.value ?? {};
  const { unserved, settings_problem, workspace_problem, plan_problem, folder_problems = [], waits } = view ?? {};
  const disk = waits?.what === 'disk' && waits.why;
  return (
    <div class="problems">
      <Faults />
      {problem && (
        <Notice isProblem>
          {problem.status === 404 ? gone : problem.message} <a href="#/">{back}</a>
        </Notice>
      )}
      {[unserved, disk, settings_problem, workspace_problem, plan_problem, ...folder_problems].map(
        (text) =>
          text && (
            <Notice key={text} isProblem>
              {text}
            </Notice>
          ),
      )}
      {view && view.rejected.total > 0 && <RejectedFiles {...view.rejected} />}
    </div>
  );
}

/** Rejected files: their number and the newest; expanded, the last few and what to do. */
function RejectedFiles({ total, newest }: SessionView['rejected']) {
  const { title, count, next } = words.value.rejected;
  const [last] = newest;
  const summary = (
    <>
      <StateLabel state="blocked" text={count(total)} />{' '}
      {last && <span class="line">{`${last.file}: ${last.why}`}</span>}
    </>
  );
  return (
    <section class="rejected-files" aria-label={title}>
      <Unfold kind="notice" summary={summary}>
        {() => (
          <div>
            <ul>
              {newest.map(({ file, why, at }) => (
                <li key={file}>
                  <b>{file}</b>: {why}{' '}
                  <time class="quiet" dateTime={at}>
                    {formatTime(at)}
                  </time>
                </li>
              ))}
            </ul>
            <p>{next}</p>
          </div>
        )}
      </Unfold>
    </section>
  );
}

/** `isPaused`: and can be resumed. */
function RunState({ view, isPaused }: { view: SessionView; isPaused: boolean }) {
  const { stepOf, calls, tokens, waitingMessages, usageColumns, goesOn } = words.value;
  const { standing, plan, run, run_end: runEnd, inbox } = view;
  const spent = run?.spent ?? runEnd?.spent;
  const completed = plan?.steps.filter(({ status }) => status === 'completed').length ?? 0;
  const facts = [
    spent && run && calls(spent.iterations, run.limits.iterations),
    spent && tokens(formatTokens(spent)),
    spent && spent.cost !== null && `${usageColumns.cost} ${formatCost(spent.cost)}`,
    spent?.ms !== undefined && formatDuration(spent.ms),
    inbox > 0 && waitingMessages(inbox),
    view.waits?.until && goesOn(formatTime(view.waits.until)),
  ];
  return (
    <div class="row run-state">
      <p role="status" class="row">
        <StateLabel state={standing} />
        {plan && plan.steps.length > 0 && <span class="unseen">{stepOf(completed, plan.steps.length)}</span>}
      </p>
      <span class="quiet line spent">{facts.filter(Boolean).join(' · ')}</span>
      <RunControls view={view} isPaused={isPaused} />
    </div>
  );
}

const MENU = 'run-menu';

/** Continue if the run is paused; ways to interrupt or end it in a menu that says what each does. */
function RunControls({ view: { name, standing, plan }, isPaused }: { view: SessionView; isPaused: boolean }) {
  const { runActions, runHints, sure } = words.value;
  const isRunning = standing === 'running';
  const isOpen = plan !== null && (plan.status === 'paused' || plan.status === 'waiting');
  const send = (command: 'pause' | 'stop' | 'cancel') => {
    document.getElementById(MENU)?.hidePopover();
    return sendCommand(name, command);
  };
  const textOf = (action: 'pause' | 'stop' | 'cancel') => (
    <>
      <b>{runActions[action]}</b> <span class="quiet">{runHints[action]}</span>
    </>
  );
  return (
    <span class="row controls">
      {isPaused && (
        <Button kind="main" hint={runHints.resume} onClick={() => sendCommand(name, 'continue')}>
          {runActions.resume}
        </Button>
      )}
      {(isRunning || isOpen) && (
        <>
          <button type="button" popovertarget={MENU}>
            {isRunning ? runActions.interrupt : runActions.end}
          </button>
          <div id={MENU} class="menu" popover="auto">
            {isRunning && <Button onClick={() => send('pause')}>{textOf('pause')}</Button>}
            {isRunning && <Button onClick={() => send('stop')}>{textOf('stop')}</Button>}
            <SureButton question={sure.question} onClick={() => send('cancel')}>
              {textOf('cancel')}
            </SureButton>
          </div>
        </>
      )}
    </span>
  );
}
