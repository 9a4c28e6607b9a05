-- The rescale itself: look, do it if it is safe, or leave it to commit by itself.
--   psql ... -v source=s -v target=4 -f examples/psql/rescale.sql
EXPLAIN ALTER SOURCE :"source" SET PARALLELISM = :target;
ALTER SOURCE :"source" SET PARALLELISM = :target DEFERRED;
SELECT * FROM tidegate.pending_rescales;
SELECT rescale_id, decision, moved_splits, sqlstate FROM tidegate.rescale_history ORDER BY rescale_id DESC LIMIT 5;
