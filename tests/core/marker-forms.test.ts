import { expect, test } from 'vitest';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';
import { readStatusTags } from '../../src/core/detect/step-tags.ts';

const closes = (text: string): boolean => detectStepCompletion(text, { iterationInStep: 0 }).tier === 'marker';
const formsIn = (text: string): string[] => text.trim().split(/\n| \| /);

/** Each is composed of words of `src/core/text/step-words.ts`; none is listed there. */
const DONE_FORMS = formsIn(`
[DONE] | [done] | [ Done ] | [Finished] | [Completed] | [Task complete] | [Task Completed] | [TASK_COMPLETE]
[TASK COMPLETE] | [TaskComplete] | [STEP_DONE] | [StepDone] | [step-complete] | [Step complete]
[Step finished] | [Step is done] | [Step is complete] | [This step is done] | [The step is finished]
[Current step done] | [Current step completed] | [Step has been completed] | [Subtask done] | [Phase complete]
[Stage completed] | [Work done] | [Job done] | [Status: done] | [Status: Completed] | [State: finished]
[All done] | [Fully done] | [Now done] | [Successfully completed] | [Completed successfully]
[Task completed successfully] | [Everything is done] | [Done now] | [Done: all five links]
[Done - all five links] | [Done – all five links] | [Done, five links found] | [Done; five links found]
[Done (five links)] | [Completed: report.md written] | [Finished: 12 rows] | [✅ Done] | [Done ✅]
[✔ Completed] | [Done ✓] | ✅ [Done] | **[Done]** | _[Done]_ | - [Done] five links | [Done] – five links
【Done】 | ［DONE］ | [完成] | 【完成】 | [已完成] | [步骤完成] | [步骤已完成] | [该步骤已完成] | [本步骤完成]
[本步完成] | [此步骤已完成] | [当前步骤完成] | [当前步骤已完成] | [这个步骤已完成] | [任务完成] | [任务已完成]
[阶段完成] | [全部完成] | [都完成了] | [完成了] | [已经完成] | [顺利完成] | [成功完成] | [已结束] | [结束]
[做完了] | [完毕] | [搞定] | [搞定了] | [状态：完成] | [状态：已完成] | [完成：五个链接] | [完成，五个链接]
[完成（五个链接）] | [✅ 完成] | [步驟完成] | [任務已完成] | [結束] | [完畢] | [完了] | [完了しました]
[ステップ完了] | [タスク完了] | [作業完了] | [すべて完了] | [終了] | [済み] | [완료] | [단계 완료]
[작업 완료] | [모두 완료] | [Hecho] | [Listo] | [Paso completado] | [Tarea completada] | [Ya terminado]
[Este paso está hecho] | [Feito] | [Concluído] | [Passo concluído] | [Tarefa concluída] | [Terminé]
[Étape terminée] | [Tâche terminée] | [Fait] | [Cette étape est terminée] | [Erledigt] | [Fertig]
[Schritt erledigt] | [Schritt abgeschlossen] | [Dieser Schritt ist erledigt] | [Aufgabe erledigt] | [Fatto]
[Completato] | [Готово] | [Выполнено] | [Шаг выполнен] | [Задача завершена]
`);

test('markers that ordinary models write are read by composition, in ten languages', () => {
  expect(DONE_FORMS.filter((form) => !closes(form))).toEqual([]);
  expect(DONE_FORMS.length).toBeGreaterThanOrEqual(130);
});

test.each(
  formsIn(`
[Done?] | [Done: not yet] | [Done: 3/5] | [Done 3/5] | [Done, but not tested] | [Half done] | [Almost done]
[To be done] | [Will be completed] | [Complete the form] | [Complete guide] | [Finished goods]
[Done by Friday] | [Done when the tests pass] | [DONE_WITH_CONCERNS] | [Completed 3 of 5] | [Undone]
[Not done] | [Not yet finished] | [Step not done] | [Step is not complete] | [This step isn't done]
[Status: not done] | [Status: pending] | [Task] | [Step] | [Incomplete] | [待完成] | [未完成] | [尚未完成]
[步骤未完成] | [任务没有完成] | [完成度 80%] | [完成后提交] | [将完成] | [完成率] | [结束语] | [未完了]
[완료율 80%] | [no hecho] | [Paso no completado] | [pas terminé] | [nicht fertig] | [noch nicht erledigt]
[не готово] | [ещё не выполнено]
`),
)('a form that takes its word back or means something else closes nothing: %s', (form) => {
  expect(closes(form)).toBe(false);
});

test.each([
  ['[Step 2 Done]', 'step_2'],
  ['[Step 2 of 5 is complete]', 'step_2'],
  ['[Step 2/5: Done]', 'step_2'],
  ['[Task 2: completed]', 'step_2'],
  ['[Step 2 - fetch the links: Done]', 'step_2'],
  ['[Completed step 2]', 'step_2'],
  ['[Done with step 2]', 'step_2'],
  ['[第二步完成]', 'step_2'],
  ['[第2步已完成]', 'step_2'],
  ['[步骤2已完成]', 'step_2'],
  ['[完成第二步]', 'step_2'],
  ['[已完成步骤2]', 'step_2'],
  ['[ステップ2完了]', 'step_2'],
  ['[Schritt 2 ist erledigt]', 'step_2'],
  ['[Шаг 2 выполнен]', 'step_2'],
])('%s names the step', (form, step) => {
  expect(readStatusTags(form)).toEqual([{ kind: 'done', step }]);
});

test.each([
  ['[Status: blocked: no key]', 'blocked'],
  ['[Step 2 failed: 404]', 'failed'],
  ['[步骤2失败：404]', 'failed'],
  ['[Schritt fehlgeschlagen: 404]', 'failed'],
  ['[Task skipped: not needed]', 'skipped'],
  ['[bloqué : pas de clé]', 'blocked'],
])('%s is read as %s', (form, kind) => {
  expect(readStatusTags(form)).toMatchObject([{ kind }]);
});
