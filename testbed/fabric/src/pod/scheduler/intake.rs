//! What a request changes: demands, mice, pauses and receipts.
//! Source: \[zeropod\] IV-A1, IV-B1, IV-E.

use super::messages::{Mouse, Refused, Rts, Update};
use super::{FIRST_TERM, MICE, PodDecider, UPDATES, modulo};

impl PodDecider {
    /// Takes over what an admitted request says.
    #[inline]
    pub(super) fn admitted(&mut self, sender: usize, rts: &Rts<'_>, now: u64) {
        let (is_first_term, known) = (self.term == FIRST_TERM, &mut self.clients[sender]);
        if known.spoke.is_none() && !is_first_term {
            known.joins = rts.epoch + self.settings.joins_after;
        }
        (known.spoke, known.repeated, known.reported) = (Some(rts.epoch), None, None);
        if rts.updates.len() > UPDATES || rts.mice.len() > MICE {
            self.counters.refuse(Refused::TooMany);
        }
        let epoch = modulo(rts.epoch);
        for update in rts.updates.iter().take(UPDATES) {
            if let Err(why) = self.update(sender, *update, epoch) {
                self.counters.refuse(why);
            }
        }
        self.set_mice(sender, rts.mice);
        if let Some(core) = sender.checked_sub(self.shape.hosts()) {
            self.pause(core, rts.paused);
        }
        let history = &mut self.history;
        if let Some(epoch) = rts.arrived {
            let reported = if epoch > now { None } else { history.note_arrived(sender, epoch) };
            self.clients[sender].reported = reported;
            if reported.is_none() {
                self.counters.refuse(Refused::UnknownReceipt);
            }
        }
        if let Some(epoch) = rts.lost
            && (epoch > now || !history.note_lost(sender, epoch))
        {
            self.counters.refuse(Refused::UnknownReceipt);
        }
    }

    /// Whether a request is for this scheduler and of a plausible time.
    #[inline]
    pub(super) fn admit(&self, sender: usize, rts: &Rts<'_>, now: u64) -> Result<(), Refused> {
        if usize::from(rts.pod) != self.shape.pod() {
            return Err(Refused::ForeignPod);
        }
        if rts.term != self.term {
            return Err(if rts.term < self.term { Refused::OldTerm } else { Refused::FutureTerm });
        }
        if rts.epoch > now {
            return Err(Refused::FutureEpoch);
        }
        if now - rts.epoch > self.settings.lead {
            return Err(Refused::PastEpoch);
        }
        if self.clients[sender].spoke.is_some_and(|spoke| rts.epoch <= spoke) {
            return Err(Refused::Repeated);
        }
        Ok(())
    }

    /// Brings one demand up to a total.
    #[inline]
    fn update(&mut self, sender: usize, update: Update, epoch: u32) -> Result<(), Refused> {
        if !self.demands.has(sender, update.to) {
            return Err(Refused::UnknownReceiver);
        }
        let asked = update.total.wrapping_sub(self.demands.asked(sender, update.to));
        if asked >= 1 << 31 {
            return Err(Refused::TotalJump);
        }
        if asked == 0 {
            self.clients[sender].repeated = Some(update.to);
        }
        let room = self.settings.backlog - self.demands.backlog(sender, update.to);
        let taken = asked.min(room);
        self.demands.ask(sender, update.to, taken, epoch);
        self.counters.asked_bytes += u64::from(taken);
        if taken < asked { Err(Refused::BeyondBacklog) } else { Ok(()) }
    }

    /// Replaces the mice that a client reported.
    #[inline]
    fn set_mice(&mut self, sender: usize, mice: &[Mouse]) {
        // Most requests of a loaded pod name none.
        if !mice.is_empty() || self.clients[sender].mice_len > 0 {
            self.replace_mice(sender, mice);
        }
    }

    fn replace_mice(&mut self, sender: usize, mice: &[Mouse]) {
        let (before, known) = (self.mice[sender], self.clients[sender].mice_len);
        for to in &before[..usize::from(known)] {
            if !mice.iter().take(MICE).any(|mouse| mouse.to == *to) {
                self.demands.set_mouse(sender, *to, 0);
            }
        }
        let mut len = 0;
        for mouse in mice.iter().take(MICE) {
            if !self.demands.has(sender, mouse.to) {
                self.counters.refuse(Refused::UnknownReceiver);
                continue;
            }
            self.demands.set_mouse(sender, mouse.to, mouse.bytes);
            self.mice[sender][usize::from(len)] = mouse.to;
            len += 1;
        }
        self.clients[sender].mice_len = len;
    }

    /// Notes for which pods a Core takes cells.
    pub(super) fn pause(&mut self, core: usize, pods: u32) {
        self.pauses |= pods != 0;
        let (agg, layer) = self.shape.core_place(core);
        for (pod, paused) in self.paused.iter_mut().enumerate() {
            paused[layer] = paused[layer] & !(1 << agg) | (pods >> pod & 1) << agg;
        }
    }
}
