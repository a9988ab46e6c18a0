import type { LanguageWords } from './word-classes.ts';

/** What people write to an agent in English. Each entry is a list of words and phrases, separated by commas. */
export const ENGLISH: LanguageWords = {
  stop:
    'stop, stopp, halt, abort, cancel, quit, cease, desist, enough, thats enough, that is enough, call it off, ' +
    'knock it off, cut it out, never mind, nevermind, nvm, forget it, forget about it, forget the whole thing, ' +
    'forget the whole task, forget the task, forget the whole plan, scrap that, scrap it, scrap the plan, drop it, ' +
    'abandon it, kill it, kill the run, kill the task, end it, end it here, end the run, end the task, abort mission, ' +
    'shut it down, shut up, stop mission, 🛑, ✋, ⛔, pull the plug, leave it at that, leave it be, i give up, ' +
    'i take it back',
  pause:
    'pause, take a break, have a break, take five, take a rest, suspend, freeze, put it on hold, put this on hold, ' +
    'put everything on hold, put the run on hold, ⏸',
  wait:
    'wait, hold on, hold up, hang on, hold your horses, hold it, hold that thought, not so fast, one moment, one sec, ' +
    'one second, one minute, just a moment, just a sec, just a second, just a minute, give me a moment, give me a sec, ' +
    'give me a second, give me a minute, wait up, hold off, slow down, stand by, whoa, woah, hold fire, easy now',
  go:
    'continue, cont, resume, proceed, go on, go ahead, carry on, keep going, keep on, keep on going, keep it going, keep working, ' +
    'keep at it, keep it up, keep goin, move on, press on, push on, push ahead, get going, get on with it, pick up, ' +
    'pick it up, pick it up again, pick things up, pick up again, next step, retry, try again, try once more, ' +
    'try it again, try that again, give it another try, give it another go, give it another shot, have another go, ' +
    'start again, run it again, go for it, onward, onwards, back to work, get back to work, unpause, green light, good to go, ' +
    'finish it, finish up, finish the job, finish the task, finish the plan, finish the work, finish what you started, ' +
    'get it done, keep plugging away, crack on, lets roll, full steam ahead, fire away, on you go, off you go, ▶, ⏩',
  weakGo: 'go, more, next, and, k, do it, do so, fire, run, start, ready, done, fixed, here you go, carry',
  back:
    'back, go back, go back to it, back to it, return, the old plan, the old one, the earlier plan, the previous plan, the last plan, ' +
    'back to the plan, back to the old plan, bring it back, bring back the plan, the first one, the old task, the earlier one',
  newTask:
    'new, new task, a new task, a new one, new one, separate, separate task, a separate task, different, a different task, ' +
    'another task, something new, something else, it is new, a new job, new job, start over',
  undo:
    'undo, reopen, re-open, open again, take back, take it back, take that back, roll back, rollback, revert, uncheck, ' +
    'untick, unmark, redo',
  it:
    'it, this, that, these, those, everything, all, all of it, all of this, all that, anything, anything else, anything more, ' +
    'any further, any more, the run, the task, the work, the job, the plan, the process, the thing, the whole thing, ' +
    'the whole task, the whole plan, the whole job, the whole run, the whole process, the session, the operation, ' +
    'the execution, the agent, this task, this run, this plan, this job, this thing, working, running, generating, ' +
    'what youre doing, what you are doing, whatever youre doing, whatever you are doing, doing that, doing this, ' +
    'where you left off, where you stopped, where you were, where we left off, where we were, where it stopped, ' +
    'where it failed, from where you left off, from where you stopped, from where it failed, from where it stopped, ' +
    'from where we left off, your work, your task, your job, your plan, with it, with this, with that, with the plan, ' +
    'with the task, with the work, with the job, with the run, on it, on this, on that, at it, as planned, as before, ' +
    'yourself, the current task, the current run, the current plan, the current step, what you were doing, that one',
  now:
    'now, yet, right now, immediately, at once, right away, asap, here, right here, right there, there, for now, for today, ' +
    'for tonight, for the day, for a moment, for a minute, for a bit, for a second, for a sec, for a while, a bit, a moment, ' +
    'a minute, a second, a sec, a little, already, again, then, this time, today, first, this instant, once more, from here, ' +
    'from there, just now, this minute, straight away, this second, the moment, quickly, quick, completely, entirely, ' +
    'anyway, at this point, right there, once again, as is, all the way, to the end',
  filler:
    'please, pls, plz, pleas, thanks, thank you, thx, ty, cheers, ta, sorry, hey, hi, hello, yo, dear, uh, um, uhm, er, erm, ' +
    'ah, hmm, hm, well, so, oh, bot, agent, assistant, claude, gpt, computer, man, mate, bro, dude, buddy, guys, folks, team, ' +
    'i said, i say, i repeat, i think, for gods sake, for heavens sake, good job, great job, nice job, great work, good work, ' +
    'nice work, well done, great, nice, good, perfect, awesome, cool, excellent, fine, lovely, looks good, looking good, ' +
    'looks great, looks good so far, so far, all good, thanks so far, actually, i mean, you know, kindly, very much, a lot, ' +
    'so much, many thanks, good morning, good evening, good afternoon, good night, haha, lol, right, alright, all right, ' +
    'no worries, no problem, like, seriously, really, damn, omg, wtf, ffs, argh, ugh, yikes, folks, there you go, ' +
    'i beg you, my friend, my bad, oops, basically, okay so, fyi, emergency, urgent, alert, excuse me, im back, i am back, ' +
    'that should be enough, should be enough, should do, that should do, if you can, if you could, if possible, ' +
    'if you dont mind, if you please, when you can, whenever you can, when youre ready, whenever youre ready, ' +
    'if you want, if you like, if thats ok, just, maybe, perhaps, simply, finally, on second thought, on second thoughts',
  yes:
    'yes, yep, yeah, yup, yea, y, ok, okay, oki, okey, okey dokey, okie, sure, sure thing, of course, absolutely, definitely, ' +
    'certainly, sounds good, approved, lgtm, you have my approval, you have my permission, permission granted, agreed, ' +
    'thats fine, that is fine, thats ok, its fine, its ok, aye, by all means, 👍, ✅, 👌, 🆗, granted',
  no: 'no, nope, nah, n, 👎, ❌, never',
  request:
    'can you, could you, would you, can you please, could you please, can we, could we, you can, you may, you could, you should, ' +
    'you must, you need to, you have to, i want you to, id like you to, i would like you to, i need you to, ' +
    'im asking you to, lets, let us, we can, we should, we need to, feel free to, time to, its time to, its ok to, ' +
    'its okay to, its fine to, its safe to, go and, youve got to, you better, youd better, let it, i told you to, you are free to, ' +
    'youre free to, youre clear to, you are clear to, you are allowed to, youre allowed to, try to, i want to, ' +
    'i would like to, id like to, we have to, please do, would you kindly, any chance you could, would you mind, ' +
    'i order you to, you are cleared to, youre welcome to, be so kind and, could you just, happy for you to',
  question:
    'what, why, how, when, where, which, who, whose, whether, should i, should we, shall i, shall we, do i, do you, does, is, ' +
    'are, am, was, were, did, are you, is it, is there, are there, will, will you, may i, can i, could i, can it, could it, ' +
    'has, have you, whats, hows, whens, wheres, whos, is this, is that, are we, would it, must i, do we, did you, would',
  if: 'if, once, after, before, unless, only after, only if, only when, as soon as, in case, whenever, while, provided, tomorrow, next week',
  until: 'until, till, til, until its',
  because:
    'because, cause, cuz, since, its, it is, this is, that is, thats, you, youre, you are, youve, you have the, i, im, i am, ive, ' +
    'i have, ill, i will, id, we, were in, weve, they, theyre, he, she, there is, theres, something, someone, somebody, ' +
    'nothing, let me, thats not, thats the, this isnt, it was, that was, no need, no longer needed, ' +
    'what are you, what the',
  and: 'and, but, then, and then, so that, however, though, although',
  with:
    'with, from, at, where, without, using, except, only, in, for, on step, to step, to the next, on to, starting, beginning, ' +
    'after step, but only, through, with step, on the rest, as if',
  unit:
    'round, rounds, iteration, iterations, turn, turns, call, calls, try, tries, attempt, attempts, times, loop, loops, ' +
    'cycle, cycles, request, requests, iters, its, rounds more, goes',
  minutes: 'minute, minutes, min, mins',
  hours: 'hour, hours, hrs',
  tokens: 'token, tokens',
  more: 'more, another, additional, extra, further, some more, a few more',
  grant:
    'give it, give yourself, give you, giving you, i give you, i am giving you, im giving you, ill give you, i will give you, ' +
    'you have, youve got, you get, you got, you can have, you may have, you can use, you may use, you can take, you may take, ' +
    'have, allow, here are, heres, raise it to, raise to, raise the limit to, raise the limit by, up it to, ' +
    'up the limit to, bump it to, bump the limit to, increase it to, increase the limit to, increase it by, set it to, ' +
    'set the limit to, make it, i raised the limit to, i raised it to, the limit is now, new limit, extend it by, extend it to, ' +
    'extend by, budget is now, you are allowed, youre allowed, i allow, grant it, grant you, i grant you',
  limit: 'max, maximum, at most, up to, no more than, limit, limit of, a limit of, a maximum of, not more than',
  do: 'do, finish, complete, run, execute, work on, handle, wrap up, get through, touch, change, go through, knock out',
  rest:
    'the rest, rest of it, the rest of it, the remaining steps, the remaining, the remaining ones, remaining steps, ' +
    'the remaining work, whats left, what is left, what remains, whatever is left, the rest of the plan, the rest of the work, ' +
    'the rest of the task, the rest of the steps, the rest of the job, the todos that are left, the open steps, ' +
    'the other steps, the steps that are left, the steps left, the remaining tasks, the rest of them, the remainder, ' +
    'the unfinished steps, on the todos that are left, on the rest, on whats left, with the rest, with whats left',
  order:
    'use, make, write, put, try, delete, remove, replace, switch, skip, start, send, read, list, show, fix, rename, ' +
    'move, create, build, save, ask, tell, check, go about, add, take, keep, set, convert, turn it, name it',
  also:
    'also, too, as well, additionally, in addition, and also, one more thing, another thing, by the way, btw, dont forget, ' +
    'do not forget, remember to, remember that, ps, p.s., p.s, plus, oh and, and one more thing, and dont forget, as another point',
  rather: 'wrong, the wrong, instead, rather, i meant, incorrect, not that, thats not what, actually use, instead of',
  dont:
    'dont, do not, dont you, dont ever, never, no need to, you dont need to, you do not need to, dont you dare, ' +
    'you neednt, please dont, lets not, let us not, you should not, you shouldnt, you may not, you must not, you cant, ' +
    'no more, do not you, theres no need to, there is no need to, you dont have to, i dont want you to, not ready to, ' +
    'stop dont, i wouldnt, you cannot, wont, i do not want you to',
  isnt:
    'not, isnt, is not, wasnt, was not, not yet, isnt yet, hasnt been, has not been, havent, hasnt, has not, never was, ' +
    'arent, are not, didnt, did not, cant be, is still not, still isnt, is not yet, still not, isnt really, not really, ' +
    'is far from, far from, it isnt, it wasnt, is by no means, not actually, was never, aint',
  done: 'ready, finished yet, all there',
  undone: 'unfinished, incomplete, undone, still open, is still open, still missing something',
  step:
    'step, steps, the step, this step, that step, last step, the last step, that last step, this last step, previous step, the previous step, ' +
    'the last one, last one, the last thing, first step, the first step, second step, third step, the current step, ' +
    'the second step, the third step, your last step, the task, that task, this task, task, item, the item, that item',
  mark: 'mark, set, put, flag, set it, mark it, mark that, mark this, as, as being, back to, to, it as, treat',
  report:
    'said, told, told me, told me to, says, say, saying, wrote, writes, asked, called, named, labelled, labeled, titled, reads, spelled, spelling, ' +
    'the word, the command, the button, the key, the text, named it, means, meaning, define, translate, pronounce',
  other:
    'let go, i can not wait, i cant wait, full stop, non stop, cant stop, unable to, able to, in a go, has to, have to go',
};
